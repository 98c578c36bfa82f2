//! The machine's file system keeps the promises of the trait.

use std::io::IoSlice;

use nyala_core::ErrorKind;
use nyala_engine::fs::{Access, FileSystem, RealFs};

#[test]
fn files_and_names() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("deep/er/one"), dir.path().join("deep/er/two"));
    assert_eq!(RealFs.open(&one, Access::Create).unwrap_err().kind(), ErrorKind::Missing);
    RealFs.create_dirs(&dir.path().join("deep/er")).unwrap();
    let file = RealFs.open(&one, Access::Create).unwrap();
    assert_eq!(RealFs.open(&one, Access::Create).unwrap_err().kind(), ErrorKind::Conflict);
    let many: Vec<Vec<u8>> = (0..3000_u32).map(|number| number.to_le_bytes().to_vec()).collect();
    let mut slices: Vec<IoSlice<'_>> = many.iter().map(|bytes| IoSlice::new(bytes)).collect();
    slices.insert(0, IoSlice::new(&[]));
    file.write_slices_at(&mut slices, 5).unwrap();
    let mut read = vec![0; 12_000];
    file.read_exact_at(&mut read, 5).unwrap();
    assert_eq!(read, many.concat());
    assert_eq!(file.read_vec_at(12_000, 5).unwrap(), read);
    assert_eq!(file.read_vec_at(7, 12_005 - 7).unwrap(), read[12_000 - 7..]);
    let error = file.read_vec_at(12_000, 6).unwrap_err();
    assert_eq!((error.kind(), error.place().unwrap().offset), (ErrorKind::Corrupt, 12_005));
    let error = file.read_exact_at(&mut read, 6).unwrap_err();
    assert_eq!((error.kind(), error.place().unwrap().offset), (ErrorKind::Corrupt, 12_005));
    file.preallocate(50_000).unwrap();
    file.preallocate(10).unwrap();
    assert_eq!(file.length().unwrap(), 50_000);
    file.truncate(3).unwrap();
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 3);
    file.prefetch(0, 100);
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    RealFs.rename(&one, &two).unwrap();
    RealFs.sync_dir(&dir.path().join("deep/er")).unwrap();
    let names: Vec<_> =
        RealFs.list(&dir.path().join("deep/er")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["two"]);
    assert!(RealFs.list(&dir.path().join("deep")).unwrap()[0].is_dir);
    assert!(RealFs.open(&two, Access::Read).unwrap().write_at(b"x", 0).is_err());
    assert!(RealFs.remove_dir(&dir.path().join("deep/er")).is_err());
    RealFs.remove(&two).unwrap();
    assert_eq!(RealFs.open(&two, Access::Read).unwrap_err().kind(), ErrorKind::Missing);
    RealFs.remove_dir(&dir.path().join("deep/er")).unwrap();
    assert!(!RealFs.exists(&dir.path().join("deep/er")).unwrap());
    assert!(RealFs.free_bytes(dir.path()).unwrap() > 0);
}

#[test]
fn a_directory_has_one_owner() {
    let dir = tempfile::tempdir().unwrap();
    let lock = RealFs.lock_dir(dir.path()).unwrap();
    let refused = RealFs.lock_dir(dir.path()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.message().contains(dir.path().to_str().unwrap()), "{refused}");
    assert!(refused.message().contains(&std::process::id().to_string()), "{refused}");
    drop(lock);
    RealFs.lock_dir(dir.path()).unwrap();
}
