//! Rows per second of each step from rows to a Parquet file, on one core.
//! `cargo run --example measure -p fulmar-store`
use std::time::Instant;

use fulmar_store::parquet_file::write_block;
use fulmar_store::tables::{EnumName, SecurityEventRow, SecurityEventsBuilder, TableBuilder};

const ROWS: u64 = 131_072;

fn main() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut builder = SecurityEventsBuilder::default();
    for round in 0..5 {
        builder.clear();
        let started = Instant::now();
        fill(&mut builder);
        let filled = started.elapsed();
        let started = Instant::now();
        let order = builder.sorted_order();
        let sorted = started.elapsed();
        let started = Instant::now();
        let mut rows = 0;
        for chunk in order.chunks(8192) {
            rows += builder.batch(chunk).num_rows();
        }
        let gathered = started.elapsed();
        let path = dir.path().join(format!("{round}.parquet"));
        let started = Instant::now();
        let written =
            write_block(&builder, &builder.sorted_order(), &path).expect("the file is written");
        let wrote = started.elapsed();
        let per = |d: std::time::Duration| d.as_nanos() as u64 / ROWS;
        println!(
            "rows {rows} fill {} sort {} gather {} whole write {} ns/row, {:.1} B/row, value bytes {}",
            per(filled),
            per(sorted),
            per(gathered),
            per(wrote),
            written.bytes as f64 / ROWS as f64,
            builder.value_bytes() as u64 / ROWS,
        );
    }
    if std::env::args().nth(1).is_some() {
        let file = std::fs::File::open(dir.path().join("0.parquet")).expect("opens");
        let reader = parquet::file::serialized_reader::SerializedFileReader::new(file).expect("r");
        use parquet::file::reader::FileReader;
        for column in reader.metadata().row_group(0).columns() {
            println!(
                "{:24} {:9} -> {:9} {:?}",
                column.column_path().string(),
                column.uncompressed_size(),
                column.compressed_size(),
                column.encodings().collect::<Vec<_>>()
            );
        }
    }
}

fn fill(builder: &mut SecurityEventsBuilder) {
    let users = [
        "root", "admin", "oracle", "git", "ubuntu", "pi", "test", "postgres",
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut id = String::new();
    let mut raw = String::new();
    let mut agent = String::new();
    let mut ip = String::new();
    let mut batch = String::new();
    use std::fmt::Write;
    for row in 0..ROWS {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let agent_number = (row / 500) % 16;
        id.clear();
        write!(
            id,
            "{seed:016x}{:016x}",
            seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
        )
        .unwrap();
        agent.clear();
        write!(agent, "agent-{agent_number:02}").unwrap();
        ip.clear();
        write!(ip, "203.0.{}.{}", seed % 8, (seed >> 8) % 256).unwrap();
        batch.clear();
        write!(batch, "batch-{:08}", row / 500).unwrap();
        let user = users[(seed % 8) as usize];
        let port = (seed >> 20) as u16;
        raw.clear();
        write!(
            raw,
            "Nov 30 21:{:02}:{:02} host{agent_number} sshd[{}]: Failed password for \
            invalid user {user} from {ip} port {port} ssh2",
            row / 60 % 60,
            row % 60,
            seed % 30000
        )
        .unwrap();
        let time = 1_796_000_000_000 + row as i64 / 10 + (agent_number as i64 * 37) % 1000;
        builder.append(&SecurityEventRow {
            event_id: &id,
            schema_version: 1,
            event_class: EnumName::Known("authentication"),
            event_time: time,
            observed_time: time + 12,
            ingest_time: 1_796_000_001_000 + row as i64 / 500,
            tenant_id: "default",
            agent_id: &agent,
            host_hostname: &agent,
            host_ip: "10.0.0.7",
            host_os: "linux",
            host_architecture: "x86_64",
            collector: "sshd",
            source: "/var/log/auth.log",
            sequence: row,
            gateway: "gateway-1",
            batch_id: &batch,
            auth_activity: EnumName::Known("logon"),
            auth_outcome: EnumName::Known("failure"),
            auth_outcome_reason: "invalid_user",
            auth_method: "password",
            auth_user_name: user,
            auth_user_domain: "",
            auth_user_uid: "",
            auth_service_name: "sshd",
            auth_service_protocol: "ssh2",
            auth_source_ip: &ip,
            auth_source_port: port,
            auth_destination_ip: "10.0.0.7",
            auth_destination_port: 22,
            auth_transport: EnumName::Known("tcp"),
            auth_raw_record: &raw,
            log_partition: (agent_number % 16) as i32,
            log_offset: row as i64,
        });
    }
}
