//! What single values cannot show: rules between keys.

use std::net::{IpAddr, ToSocketAddrs};

use super::value::{duration_text, size_text};
use super::{Config, networks, ports};

/// Memory that the process needs beside its configured bounds: code, state store, buffers of
/// connections and of the runtime.
const MEMORY_BASE_BYTES: u64 = 96 << 20;
/// Copies of a block's bytes while it is written: the records, their columns, the file.
const BLOCK_COPIES: u64 = 6;

/// Adds every broken rule to `problems`.
pub fn check(config: &Config, problems: &mut Vec<String>) {
    for section in ["public", "agents"] {
        let half = |name: &str| config.path(&format!("{section}.{name}")).is_some();
        if half("tls_cert") != half("tls_key") {
            problems.push(format!(
                "{section}.tls_cert and {section}.tls_key go together"
            ));
        }
    }
    check_public(config, problems);
    for name in ["public.trusted_proxies", "webhooks.allowed_networks"] {
        let wrong = networks(config.text(name)).filter_map(Result::err);
        problems.extend(wrong.map(|error| format!("{name}: {error}")));
    }
    let name = "webhooks.allowed_ports";
    let wrong = ports(config.text(name)).filter_map(Result::err);
    problems.extend(wrong.map(|error| format!("{name}: {error}")));
    check_addresses(config, problems);
    check_memory(config, problems);
    let admitted = config.number("gateway.age_max") + config.number("gateway.skew_max");
    if config.number("repeats.window") < admitted {
        problems.push(format!(
            "repeats.window must cover gateway.age_max and gateway.skew_max, {} together, else a \
             repeat that the door admits could be stored twice",
            duration_text(admitted)
        ));
    }
    if config.number("gateway.event_bytes_max") > config.number("gateway.body_max") {
        problems.push("gateway.event_bytes_max must not exceed gateway.body_max".to_owned());
    }
    if config.number("gateway.body_max") > config.number("gateway.in_flight_bytes_max") {
        problems.push("gateway.body_max must not exceed gateway.in_flight_bytes_max".to_owned());
    }
    let id = config.text("server.id");
    if id.is_empty()
        || !id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    {
        problems.push(format!(
            "server.id `{id}` takes letters, digits, `.`, `_` and `-`"
        ));
    }
}

/// G1: plain HTTP is for this machine only, unless a proxy in front is named.
fn check_public(config: &Config, problems: &mut Vec<String>) {
    let address = config.text("public.address");
    let tls = config.path("public.tls_cert").is_some();
    if tls || config.flag("public.behind_proxy") || is_loopback(address) {
        return;
    }
    problems.push(format!(
        "public.address {address} can be reached from outside: set public.tls_cert and \
         public.tls_key, or public.behind_proxy = true"
    ));
}

fn check_addresses(config: &Config, problems: &mut Vec<String>) {
    let names = ["public.address", "agents.address", "ops.address"];
    for (at, name) in names.iter().enumerate() {
        for other in &names[at + 1..] {
            let address = config.text(name);
            if address == config.text(other) && !address.ends_with(":0") {
                problems.push(format!("{name} and {other} are both {address}"));
            }
        }
    }
}

fn check_memory(config: &Config, problems: &mut Vec<String>) {
    let needed = MEMORY_BASE_BYTES
        + config.number("gateway.in_flight_bytes_max")
        + config.number("repeats.memory_max")
        + BLOCK_COPIES * config.number("writer.block_bytes");
    let ceiling = config.number("server.memory_max");
    if needed > ceiling {
        problems.push(format!(
            "server.memory_max {} is less than the bounds need: {} for gateway.in_flight_bytes_max, \
             repeats.memory_max, writer.block_bytes and the process itself",
            size_text(ceiling),
            size_text(needed)
        ));
    }
}

/// Whether an address is reached from this machine only. A name counts when all that it stands
/// for does.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return ip.is_loopback();
    }
    match address.to_socket_addrs() {
        Ok(mut found) => found.all(|socket| socket.ip().is_loopback()),
        Err(_) => false,
    }
}
