//! Authorities and certificates, made anew for each test.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
    pub der: CertificateDer<'static>,
}

pub struct Leaf {
    pub pem: String,
    pub key_pem: String,
    pub der: CertificateDer<'static>,
    key_der: Vec<u8>,
}

impl Leaf {
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key_der.clone()).into()
    }
}

/// What a client certificate says; each test changes what it is about.
pub struct LeafSpec {
    pub names: Vec<&'static str>,
    pub usages: Vec<ExtendedKeyUsagePurpose>,
    /// Seconds from now.
    pub starts: i64,
    pub ends: i64,
}

impl LeafSpec {
    pub fn agent(name: &'static str) -> Self {
        Self {
            names: vec![name],
            usages: vec![ExtendedKeyUsagePurpose::ClientAuth],
            starts: -3_600,
            ends: 3_600,
        }
    }
}

fn from_now(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        SystemTime::now() - distance
    } else {
        SystemTime::now() + distance
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Self {
            issuer: Issuer::new(params, key),
            pem,
            der,
        }
    }

    pub fn server(&self) -> Leaf {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    pub fn leaf(&self, spec: &LeafSpec) -> Leaf {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in &spec.names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.extended_key_usages = spec.usages.clone();
        params.not_before = from_now(spec.starts).into();
        params.not_after = from_now(spec.ends).into();
        self.sign(&params)
    }

    pub fn agent(&self, name: &'static str) -> Leaf {
        self.leaf(&LeafSpec::agent(name))
    }

    fn sign(&self, params: &CertificateParams) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            der: certificate.der().clone(),
            key_der: key.serialize_der(),
        }
    }
}
