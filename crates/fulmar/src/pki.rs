//! Certificates for a start: two authorities, a server, agents. Files of mode 0600.
//!
//! Agents and servers have different authorities, and each certificate its one usage, so that an
//! agent's certificate can never pose as a server, nor the other way round (G4).

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

use crate::data_dir::{create_private_dir, write_private};
use crate::exit::{Context as _, Failure};

/// Days that an authority is valid: ten years.
const AUTHORITY_DAYS: i64 = 3_650;
/// Days that a certificate is valid: agents are renewed with `fulmar pki agent`.
const LEAF_DAYS: i64 = 825;
/// How far back a certificate begins, in days, for machines whose clock runs behind.
const BACKDATE_DAYS: i64 = 1;

/// The folder `pki/` of a data folder.
pub struct Pki {
    folder: PathBuf,
}

/// Where a certificate and its key lie.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Certificate, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
}

impl Pki {
    /// The folder at a path, which may not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The files of a name, such as `server` or `agents/web-1`.
    pub fn pair(&self, name: &str) -> Pair {
        Pair {
            cert: self.folder.join(format!("{name}.pem")),
            key: self.folder.join(format!("{name}.key")),
        }
    }

    /// The files of an agent.
    pub fn agent(&self, name: &str) -> Pair {
        self.pair(&format!("agents/{name}"))
    }

    /// Whether the authorities and the server are there.
    pub fn is_made(&self) -> bool {
        ["agents-ca", "servers-ca", "server"]
            .iter()
            .all(|name| self.pair(name).cert.exists())
    }

    /// Makes what is missing of both authorities and the server's certificate. Returns whether
    /// anything was made.
    pub fn init(&self) -> Result<bool, Failure> {
        if self.is_made() {
            return Ok(false);
        }
        create_private_dir(&self.folder.join("agents"))
            .context(format!("cannot make {}", self.folder.display()))?;
        for (name, title) in [
            ("agents-ca", "Fulmar agents authority"),
            ("servers-ca", "Fulmar servers authority"),
        ] {
            if !self.pair(name).cert.exists() {
                self.make_authority(name, title)?;
            }
        }
        if !self.pair("server").cert.exists() {
            self.make_server()?;
        }
        Ok(true)
    }

    /// Makes an agent's certificate, in place of an earlier one.
    pub fn make_agent(&self, name: &str) -> Result<Pair, Failure> {
        if !fulmar_event::agent_id_ok(name.as_bytes()) {
            return Err(Failure::usage(format!(
                "`{name}` is no agent id: it starts with a letter or digit and holds at most 64 of \
                 letters, digits, `.`, `_` and `-`"
            )));
        }
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.make_leaf("agents-ca", &format!("agents/{name}"), params)
    }

    /// The agent's files, made now if there are none.
    pub fn agent_or_make(&self, name: &str) -> Result<Pair, Failure> {
        let pair = self.agent(name);
        if pair.cert.exists() && pair.key.exists() {
            return Ok(pair);
        }
        self.make_agent(name)
    }

    fn make_authority(&self, name: &str, title: &str) -> Result<(), Failure> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, title);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        set_validity(&mut params, AUTHORITY_DAYS)?;
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = issuer.key().serialize_pem();
        self.write(name, &issuer.pem(), &key)?;
        Ok(())
    }

    fn make_server(&self) -> Result<Pair, Failure> {
        let mut names = vec![
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
        ];
        names.extend(host_name());
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "fulmar");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.make_leaf("servers-ca", "server", params)
    }

    fn make_leaf(
        &self,
        authority: &str,
        name: &str,
        mut params: CertificateParams,
    ) -> Result<Pair, Failure> {
        let issuer = self.load_authority(authority)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, LEAF_DAYS)?;
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &issuer)?;
        self.write(name, &cert.pem(), &key.serialize_pem())
    }

    fn load_authority(&self, name: &str) -> Result<Issuer<'static, KeyPair>, Failure> {
        let pair = self.pair(name);
        let read = |path: &Path| {
            fs::read_to_string(path).context(format!(
                "cannot read {} (`fulmar pki init` makes the authorities)",
                path.display()
            ))
        };
        let key = KeyPair::from_pem(&read(&pair.key)?)
            .context(format!("{} holds no private key", pair.key.display()))?;
        Issuer::from_ca_cert_pem(&read(&pair.cert)?, key)
            .context(format!("{} holds no certificate", pair.cert.display()))
    }

    /// The key first: a certificate without its key would look made.
    fn write(&self, name: &str, cert: &str, key: &str) -> Result<Pair, Failure> {
        let pair = self.pair(name);
        if let Some(folder) = pair.cert.parent() {
            create_private_dir(folder).context(format!("cannot make {}", folder.display()))?;
        }
        for (path, text) in [(&pair.key, key), (&pair.cert, cert)] {
            write_private(path, text.as_bytes())
                .context(format!("cannot write {}", path.display()))?;
        }
        Ok(pair)
    }
}

fn set_validity(params: &mut CertificateParams, days: i64) -> Result<(), Failure> {
    let today = jiff::Timestamp::now()
        .to_zoned(jiff::tz::TimeZone::UTC)
        .date();
    let day = |offset: i64| -> Result<_, Failure> {
        let date = today.checked_add(jiff::Span::new().try_days(offset)?)?;
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        Ok(rcgen::date_time_ymd(i32::from(date.year()), month, day))
    };
    params.not_before = day(-BACKDATE_DAYS)?;
    params.not_after = day(days)?;
    Ok(())
}

/// This machine's name, when it is one that a certificate can carry.
fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()?
        .trim()
        .to_owned();
    let sound = !name.is_empty()
        && name != "localhost"
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    sound.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_set_is_made_once_and_every_file_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new(folder.path().join("pki"));
        assert!(pki.init().unwrap());
        assert!(!pki.init().unwrap(), "a second call makes nothing");
        let before = fs::read(pki.agent_or_make("web-1").unwrap().cert).unwrap();
        let after = fs::read(pki.agent_or_make("web-1").unwrap().cert).unwrap();
        assert_eq!(before, after, "a certificate that is there is kept");
        for name in ["agents-ca", "servers-ca", "server", "agents/web-1"] {
            let pair = pki.pair(name);
            for path in [pair.cert, pair.key] {
                let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "{}", path.display());
            }
        }
    }

    #[test]
    fn an_agent_name_that_no_door_would_take_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new(folder.path().to_path_buf());
        pki.init().unwrap();
        for name in ["", "../server", "a b", "a:b", &"a".repeat(65)] {
            assert_eq!(
                pki.make_agent(name).unwrap_err().exit,
                crate::exit::Exit::Usage,
                "{name}"
            );
        }
    }
}
