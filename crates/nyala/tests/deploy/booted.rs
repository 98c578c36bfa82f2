//! A system that is booted beside this one, by its own systemd, with its own processes, mounts and network: services run in it as
//! they do on a machine. It needs root.

use crate::{succeed, text};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Mounts what a kernel gives, makes the directory the root, and becomes its init. What is mounted is gone with it.
const BOOT: &str = r#"
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
for name in null zero full random urandom tty ptmx; do touch dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t cgroup2 none sys/fs/cgroup
mkdir -p old
pivot_root . old
exec chroot . /usr/bin/env -i container=nyala-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /bin/sh -c 'umount -l /old; exec /lib/systemd/systemd --system --log-target=journal'
"#;

/// The system while it runs.
pub(crate) struct Booted {
    outside: Child,
    init: String,
}

impl Booted {
    pub(crate) fn start(system: &Path) -> Self {
        // What belongs to the machine, and not to what is tried.
        for unit in ["systemd-sysctl.service", "systemd-remount-fs.service", "systemd-timesyncd.service"] {
            let _ = std::os::unix::fs::symlink("/dev/null", system.join("etc/systemd/system").join(unit));
        }
        let outside = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net", "--cgroup"])
            .args(["bash", "-euc", BOOT, "boot"])
            .arg(system)
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        // From here on it ends with this.
        let mut booted = Self { outside, init: String::new() };
        let begun = Instant::now();
        let children = format!("/proc/{0}/task/{0}/children", booted.outside.id());
        loop {
            booted.init = std::fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
            let state = booted.inside("systemctl is-system-running").output().expect("it runs");
            // Units of a machine that has devices may fail.
            if ["running", "degraded"].contains(&String::from_utf8_lossy(&state.stdout).trim()) {
                return booted;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "it does not come up: {}", text(&state));
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn inside(&self, words: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init, "--mount", "--uts", "--ipc", "--net", "--pid", "--root"]);
        command.args(["sh", "-ec", words]);
        command
    }

    /// Runs a command in it, which must succeed.
    pub(crate) fn run(&self, words: &str) -> String {
        succeed(&mut self.inside(words))
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // Its init is killed with it, and with that everything in it.
        let _ = self.outside.kill();
        let _ = self.outside.wait();
    }
}
