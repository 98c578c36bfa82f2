//! How somebody is asked at a log-in does not tell whether there is such a user.

use nyala_core::Result;
use nyala_core::store::StoreRef;
use nyala_core::store::memory::MemoryStore;
use nyala_db::catalog::Catalog;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// So many that each of a few users has some who are asked like it.
const NAMES: usize = 100;

/// The iterations and the salt that unknown names are asked with; `None`: they are asked for their password.
async fn asked(catalog: &Catalog) -> Result<BTreeMap<String, Option<(u32, Vec<u8>)>>> {
    let mut all = BTreeMap::new();
    for name in (0..NAMES).map(|number| format!("nobody{number}")) {
        let verifier = catalog.users().scram_verifier(&name).await?;
        all.insert(name, verifier.map(|verifier| (verifier.iterations(), verifier.salt().to_vec())));
    }
    Ok(all)
}

#[tokio::test]
async fn unknown_names_are_asked_as_users_are_and_stay_so() -> Result<()> {
    let store: StoreRef = Arc::new(MemoryStore::default());
    let catalog = Catalog::open(store.clone()).await?;
    let users = catalog.users();
    for (name, iterations) in [("mia", 0), ("ben", 4096), ("zoe", 5000)] {
        users.set_scram_iterations(iterations);
        users.create(name, "secret", name == "mia", false).await?;
    }
    let before = asked(&catalog).await?;
    let iterations: BTreeSet<_> = before.values().map(|own| own.as_ref().map(|(own, _)| *own)).collect();
    assert_eq!(iterations, BTreeSet::from([None, Some(4096), Some(5000)]));
    // Users who have a verifier keep it when the operator no longer wants any.
    users.set_scram_iterations(0);
    assert_eq!(asked(&catalog).await?, before);
    assert_eq!(asked(&Catalog::open(store).await?).await?, before, "after a restart");
    // Another administrator changes nothing but who is asked like it.
    users.create("aaron", "secret", true, false).await?;
    for (name, after) in asked(&catalog).await? {
        assert!(after.is_none() || after == before[&name], "{name}");
    }
    Ok(())
}
