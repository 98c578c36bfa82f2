//! Clusters that require Kerberos.
//!
//! Kudu's control shell starts a key distribution centre from the programs of MIT Kerberos. The published binaries
//! contain an older Kerberos library, which must not be mixed with those programs and the system's plug-ins. Such a
//! cluster therefore runs from a home without that library, where both find the system's.

use std::path::{Path, PathBuf};

/// Checks that the programs of MIT Kerberos are installed, and the one by which the control shell learns their ports.
///
/// # Errors
/// A message: which program is missing, and which packages contain them.
pub fn have_kerberos() -> Result<(), String> {
    // Where the control shell looks for them.
    let directories = ["/usr/local/sbin", "/usr/sbin", "/usr/bin", "/usr/lib/mit/sbin", "/usr/lib/mit/bin"];
    for program in ["krb5kdc", "kdb5_util", "kadmin.local", "kinit", "lsof"] {
        if !directories.iter().any(|directory| Path::new(directory).join(program).exists()) {
            let packages = "krb5-kdc, krb5-admin-server, krb5-user and lsof on Debian";
            return Err(format!("{program}, for MIT Kerberos, is not installed ({packages})"));
        }
    }
    Ok(())
}

/// Makes a copy of `home` below `root`, without its Kerberos libraries.
pub(super) fn home_for_kerberos(home: &Path, root: &Path) -> Result<PathBuf, String> {
    let own = root.join("home");
    let make = || {
        std::fs::create_dir_all(own.join("bin"))?;
        std::fs::create_dir_all(own.join("lib"))?;
        // Copies, not links: the loader looks for libraries beside the real path of a program.
        for program in std::fs::read_dir(home.join("bin"))? {
            let program = program?;
            std::fs::copy(program.path(), own.join("bin").join(program.file_name()))?;
        }
        for library in std::fs::read_dir(home.join("lib"))? {
            let library = library?;
            let name = library.file_name();
            let is_kerberos = ["libkrb5", "libgssapi_krb5", "libk5crypto"]
                .iter()
                .any(|prefix| name.to_str().is_some_and(|name| name.starts_with(prefix)));
            if !is_kerberos {
                std::os::unix::fs::symlink(library.path(), own.join("lib").join(name))?;
            }
        }
        std::os::unix::fs::symlink(home.join("www"), own.join("www"))
    };
    make().map_err(|error: std::io::Error| format!("{}: {error}", own.display()))?;
    Ok(own)
}
