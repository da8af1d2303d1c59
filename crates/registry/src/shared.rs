//! Maps of shared values, written and read as maps of the values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    map: &BTreeMap<String, Arc<T>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(key, value)| (key, &**value)))
}

pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Arc<T>>, D::Error> {
    let map = BTreeMap::<String, T>::deserialize(deserializer)?;
    let shared = map.into_iter().map(|(key, value)| (key, Arc::new(value)));
    Ok(shared.collect())
}
