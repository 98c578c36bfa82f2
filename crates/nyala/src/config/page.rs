//! The page of settings, `docs/operations/settings.md`, as `nyala config --markdown` prints it.

use super::SETTINGS;
use std::fmt::Write;

const INTRODUCTION: &str = "\
# Settings

<!-- `nyala config --markdown` writes this page; a test compares them. -->

Every setting has one name, which is its key in the file that `--config` (or `NYALA_CONFIG`) names. The flag has the same
name with `--` before it, the environment variable is listed below. A flag overrides a variable, a variable overrides the
file, and the file overrides the default.

    memory-limit = \"2GiB\"             # in the file
    NYALA_MEMORY_LIMIT=2GiB           # as a variable
    --memory-limit 2GiB               # as a flag

`nyala config` prints the settings in force as such a file, those that have a value and are no secret. `nyala config --config FILE`
checks the keys and values of a file; an unknown key is an error. Whether what they name is there (certificates, directories) is found
at the start, when settings are read. At SIGHUP the certificate, its key and `log-level` (unless `NYALA_LOG` is set) are read
again, and the audit log is opened again. `collectd-auth-file` is read again when it changes.

A SIZE is a number with `KiB`, `MiB`, `GiB`, `KB`, `MB`, `GB` or nothing for bytes. A DURATION is a number with `ms`, `s`,
`m`, `h`, `d` or `w`, or several of them: `1h30m`. In the file both are texts in quotes; a number of bytes needs none. Lists are arrays
in the file. Elsewhere their parts are separated by commas, those of `graphite-templates` by semicolons.

The variable `NYALA_LOG` is older than `log-level` and overrides it, for all commands: `debug` or `nyala=debug,warn`.
";

/// The page.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut group = "";
    let mut write = || -> std::fmt::Result {
        for setting in SETTINGS {
            if setting.group != group {
                group = setting.group;
                writeln!(page, "\n## {group}\n\n| setting | value | default | meaning |\n|---|---|---|---|")?;
            }
            let default = match setting.default {
                words if words == "none" || words.contains(' ') => words.to_owned(),
                value => format!("`{value}`"),
            };
            let (name, variable) = (setting.name.replace('_', "-"), setting.variable);
            // A bar would end the cell.
            let value = setting.value_name.replace('|', "\\|");
            let help = setting.help;
            writeln!(page, "| `{name}`<br>`{variable}` | {value} | {default} | {help} |")?;
        }
        Ok(())
    };
    write().expect("writing to memory does not fail");
    page
}
