//! Portable backups as nobody would make them: what they name leads nowhere, and what they lack is named.

use nyala_influxdb::DamageList;
use nyala_influxdb::shard::{FieldValues, RowTarget, read_shard};
use nyala_influxdb::source;
use std::convert::Infallible;
use std::fs;
use std::path::Path;

/// Takes anything.
struct Anything;

impl RowTarget for Anything {
    type Error = Infallible;

    fn rows(&mut self, _: &[u8], _: &[i64], _: &[FieldValues<'_>]) -> Result<(), Infallible> {
        Ok(())
    }

    fn read(&mut self, _: u64) {}
}

fn manifest(directory: &Path, archive: &str, size: usize) {
    let files = format!(
        r#"[{{"database":"d","policy":"p","shardID":7,"fileName":{archive:?},"size":{size},"lastModified":5}}]"#
    );
    let text = format!(r#"{{"meta":{{"fileName":"a.meta","size":1}},"limited":false,"files":{files}}}"#);
    fs::write(directory.join("a.manifest"), text).expect("written");
    // Field 1, of no bytes: no settings.
    fs::write(directory.join("a.meta"), [0x0a, 0]).expect("written");
}

/// An archive with a file of that name, with that content.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    archive_of(&[(tar::EntryType::Regular, name, content)])
}

fn archive_of(entries: &[(tar::EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut output = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(&mut output);
    for (kind, name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        // Not by `set_path`, which refuses what leads elsewhere.
        let place = &mut header.as_old_mut().name;
        place[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).expect("in memory");
    }
    builder.finish().expect("in memory");
    drop(builder);
    output.finish().expect("in memory")
}

#[test]
fn names_that_lead_elsewhere_are_refused_or_cut_off() {
    let root = tempfile::tempdir().expect("a directory");
    let (backup_dir, spill_dir) = (root.path().join("backup"), root.path().join("spill"));
    fs::create_dir(&backup_dir).expect("created");
    fs::create_dir(&spill_dir).expect("created");
    manifest(&backup_dir, "../x.tar.gz", 1);
    let refused =
        source::contents(&backup_dir, None, &mut DamageList::default()).expect_err("leads elsewhere");
    assert!(refused.contains("\"../x.tar.gz\" is not the name of a file beside"), "{refused}");

    // A header, the file, and two blocks of zeros.
    manifest(&backup_dir, "a.s7.tar.gz", 4 * 512);
    fs::write(backup_dir.join("a.s7.tar.gz"), archive("d/p/7/../../../../../evil.tsm", b"no TSM file"))
        .expect("written");
    let mut damage = DamageList::default();
    let found = source::contents(&backup_dir, None, &mut damage).expect("a backup");
    assert_eq!((found.shards.len(), damage.count), (1, 0));
    let Ok(()) = read_shard(&found.shards[0], i64::MIN..=i64::MAX, &spill_dir, &mut damage, &mut Anything);
    // The damage is named by its place in the archive.
    assert_eq!(damage.listed[0].file, backup_dir.join("a.s7.tar.gz/evil.tsm"), "{:?}", damage.listed);
    assert_eq!(fs::read_dir(&spill_dir).expect("readable").count(), 0, "nothing stays");
    assert_eq!(fs::read_dir(root.path()).expect("readable").count(), 2, "nothing was written elsewhere");
}

#[test]
fn what_is_no_archive_is_damage() {
    let root = tempfile::tempdir().expect("a directory");
    for content in [&b""[..], b"no gzip", &archive("d/p/7/1.tsm", b"x")[..20]] {
        manifest(root.path(), "a.s7.tar.gz", 4 * 512);
        fs::write(root.path().join("a.s7.tar.gz"), content).expect("written");
        let mut damage = DamageList::default();
        let found = source::contents(root.path(), None, &mut damage).expect("a backup");
        let Ok(()) =
            read_shard(&found.shards[0], i64::MIN..=i64::MAX, root.path(), &mut damage, &mut Anything);
        assert_eq!(damage.count, 1, "{:?}", damage.listed);
    }
    fs::write(root.path().join("a.manifest"), "{").expect("written");
    let refused = source::contents(root.path(), None, &mut DamageList::default()).expect_err("no manifest");
    assert!(refused.contains("a.manifest is no manifest"), "{refused}");
}

#[test]
fn small_archives_fill_neither_disk_nor_memory() {
    use tar::EntryType;
    let root = tempfile::tempdir().expect("a directory");
    let long = vec![b'x'; 2 << 20];
    let file = (EntryType::Regular, "d/p/7/1.tsm", &b"x"[..]);
    let cases = [
        (
            vec![(EntryType::Regular, "d/p/7/1.tsm", &*long)],
            4 * 512,
            "more than the 2048 bytes of the manifest",
        ),
        // A header, the name, a header, a file, and two blocks of zeros.
        (
            vec![(EntryType::GNULongName, "n", &*long), file],
            long.len() + 5 * 512,
            "the name of a file takes more than",
        ),
        (
            vec![(EntryType::XHeader, "n", &*long), file],
            long.len() + 5 * 512,
            "the name of a file takes more than",
        ),
    ];
    for (entries, unpacked_bytes, expected) in cases {
        let packed = archive_of(&entries);
        assert!(packed.len() < long.len() / 20, "{} bytes", packed.len());
        manifest(root.path(), "a.s7.tar.gz", unpacked_bytes);
        fs::write(root.path().join("a.s7.tar.gz"), packed).expect("written");
        let mut damage = DamageList::default();
        let found = source::contents(root.path(), None, &mut damage).expect("a backup");
        let Ok(()) =
            read_shard(&found.shards[0], i64::MIN..=i64::MAX, root.path(), &mut damage, &mut Anything);
        // Nothing of the file was kept, so it is no damage.
        assert_eq!(damage.count, 1, "{:?}", damage.listed);
        assert!(damage.listed[0].message.contains(expected), "{:?}", damage.listed);
    }
    // What is left out is not described by what stands in it, however much that is.
    let other = (EntryType::Regular, "d/p/7/other", &*long);
    manifest(root.path(), "a.s7.tar.gz", long.len() + 5 * 512);
    fs::write(root.path().join("a.s7.tar.gz"), archive_of(&[other, file])).expect("written");
    let mut damage = DamageList::default();
    let found = source::contents(root.path(), None, &mut damage).expect("a backup");
    let Ok(()) = read_shard(&found.shards[0], i64::MIN..=i64::MAX, root.path(), &mut damage, &mut Anything);
    assert_eq!(damage.listed[0].file, root.path().join("a.s7.tar.gz/1.tsm"), "{:?}", damage.listed);
}
