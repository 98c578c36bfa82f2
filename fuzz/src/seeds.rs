//! Writes inputs to begin with: `corpus/<target>/seed-<number>`.

use nyala_fuzz::{catalog, entropy, rowset};

fn main() -> std::io::Result<()> {
    let targets = [
        ("rowset_footer", rowset::footer_seeds()),
        ("index_page", rowset::page_seeds()),
        ("catalog_edits", catalog::seeds()),
        ("entropy", entropy::seeds()),
    ];
    for (target, seeds) in targets {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
