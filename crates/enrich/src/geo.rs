//! Where an address is, by MaxMind's databases; without them nowhere.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::SystemTime;

use maxminddb::{MaxMindDbError, Reader, geoip2};

/// Where an address is. Empty where unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeoPlace {
    /// ISO 3166 code of two letters.
    pub country: String,
    /// Region, in English.
    pub region: String,
    /// City, in English.
    pub city: String,
    /// Latitude and longitude in millionths of a degree.
    pub place_micros: Option<(i32, i32)>,
}

/// Databases that can be read again when their files change.
#[derive(Debug, Default)]
pub struct Geo {
    city: Database,
    asn: Database,
}

#[derive(Debug, Default)]
struct Database {
    path: Option<PathBuf>,
    loaded: RwLock<Option<Loaded>>,
}

#[derive(Debug, Clone)]
struct Loaded {
    reader: Arc<Reader<Vec<u8>>>,
    changed: (SystemTime, u64),
}

/// A database that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct GeoError {
    path: PathBuf,
    reason: String,
}

impl Geo {
    /// Opens the databases of cities and of autonomous systems, each if given.
    ///
    /// # Errors
    /// When one that is given can't be read.
    pub fn open(city: Option<&Path>, asn: Option<&Path>) -> Result<Self, GeoError> {
        let database = |path: Option<&Path>| Database {
            path: path.map(Path::to_owned),
            loaded: RwLock::default(),
        };
        let geo = Self {
            city: database(city),
            asn: database(asn),
        };
        geo.reload_if_changed()?;
        Ok(geo)
    }

    /// Reads files again that changed. One that is broken leaves what was read before.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn reload_if_changed(&self) -> Result<(), GeoError> {
        self.city.reload_if_changed()?;
        self.asn.reload_if_changed()
    }

    /// Where an address is.
    pub fn place(&self, address: IpAddr) -> GeoPlace {
        let Some(reader) = self.city.reader() else {
            return GeoPlace::default();
        };
        let found = reader.lookup(address);
        let Ok(Some(found)) = found.and_then(|found| found.decode::<geoip2::City>()) else {
            return GeoPlace::default();
        };
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let region = found.subdivisions.first();
        let location = (found.location.latitude, found.location.longitude);
        GeoPlace {
            country: text(found.country.iso_code),
            region: text(region.and_then(|region| region.names.english)),
            city: text(found.city.names.english),
            place_micros: match location {
                (Some(latitude), Some(longitude)) => Some((micros(latitude), micros(longitude))),
                _ => None,
            },
        }
    }

    /// The autonomous system that an address belongs to.
    pub fn asn(&self, address: IpAddr) -> Option<u32> {
        let reader = self.asn.reader()?;
        let found = reader.lookup(address).ok()?;
        found
            .decode::<geoip2::Asn>()
            .ok()??
            .autonomous_system_number
    }
}

impl Database {
    fn reader(&self) -> Option<Arc<Reader<Vec<u8>>>> {
        let loaded = self.loaded.read().expect("no holder panics");
        loaded.as_ref().map(|loaded| Arc::clone(&loaded.reader))
    }

    fn reload_if_changed(&self) -> Result<(), GeoError> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let fault = |reason: String| GeoError {
            path: path.clone(),
            reason,
        };
        let metadata = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?;
        let modified = metadata
            .modified()
            .map_err(|error| fault(error.to_string()))?;
        let changed = (modified, metadata.len());
        let known = self.loaded.read().expect("no holder panics");
        if known.as_ref().is_some_and(|known| known.changed == changed) {
            return Ok(());
        }
        drop(known);
        let read = Reader::open_readfile(path);
        let reader = read.map_err(|error: MaxMindDbError| fault(error.to_string()))?;
        *self.loaded.write().expect("no holder panics") = Some(Loaded {
            reader: Arc::new(reader),
            changed,
        });
        Ok(())
    }
}

fn micros(degrees: f64) -> i32 {
    // A float's cast ends at the bounds.
    (degrees * 1e6).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_databases_an_address_is_nowhere() {
        let geo = Geo::open(None, None).unwrap();
        let address = "81.2.69.142".parse().unwrap();
        assert_eq!(
            (geo.place(address), geo.asn(address)),
            (GeoPlace::default(), None)
        );
    }

    #[test]
    fn a_file_that_is_no_database_is_named() {
        let path = Path::new("data/bots.txt");
        let refused = Geo::open(Some(path), None).unwrap_err().to_string();
        assert!(refused.starts_with("data/bots.txt: "), "{refused}");
        let missing = Geo::open(None, Some(Path::new("none.mmdb"))).unwrap_err();
        assert!(missing.to_string().starts_with("none.mmdb: "), "{missing}");
    }
}
