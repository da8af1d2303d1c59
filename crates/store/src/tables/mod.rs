//! The tables: their columns, their keys, and the rows on their way to Arrow.
//!
//! A table's columns are only ever added to, at the end of its own columns and
//! before the log's; a file of an older version is read with the new columns
//! at their zero value. A file of a newer version is refused.

pub mod column;
pub mod deliveries;
pub mod dictionary;
pub mod messages;
pub mod nested;
pub mod optional;
pub mod order;
pub mod product;
pub mod product_rows;
pub mod profile_rows;
pub mod projection;
pub mod security_events;
pub mod session_rows;
pub mod sessions;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use fulmar_event::Body;
use fulmar_log::Topic;

pub use column::{ColumnBuffer, EnumName};
pub use deliveries::{AttemptsBuilder, Beside, DeliveriesBuilder, attempt_row, delivery_row};
pub use dictionary::{DictionaryBuffer, TextRows};
pub use messages::{MessageRow, MessagesBuilder};
pub use nested::Pairs;
pub use product::{
    BotRow, BotsBuilder, EventRow, EventsBuilder, ReplayChunkRow, ReplayChunksBuilder,
};
pub use product_rows::{Track, flat_properties, project_bot, project_replay_chunk};
pub use profile_rows::{group_row, profile_row};
pub use projection::{Unstorable, project_message, project_security_event};
pub use security_events::{SecurityEventRow, SecurityEventsBuilder};
pub use session_rows::{session_end, session_row, session_start};
pub use sessions::{
    GroupRow, GroupsBuilder, ProfileRow, ProfilesBuilder, SessionRow, SessionsBuilder,
};

/// A table of the lake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Authentication events of agents.
    SecurityEvents,
    /// Published messages.
    Messages,
    /// Product events, and the starts and ends of sessions.
    Events,
    /// Versions of sessions.
    Sessions,
    /// Versions of profiles.
    Profiles,
    /// Versions of groups.
    Groups,
    /// Requests of known bots.
    EventsBots,
    /// Parts of recorded sessions.
    SessionReplayChunks,
    /// Versions of deliveries.
    Deliveries,
    /// Attempts of deliveries.
    DeliveryAttempts,
}

/// One column of a table.
pub struct ColumnSpec {
    /// The name that queries use.
    pub name: &'static str,
    /// The Arrow type.
    pub data_type: DataType,
    /// Whether nulls may stand in it.
    pub nullable: bool,
    /// Whether its rows are codes into a list of values.
    pub dictionary: bool,
    /// Whether Parquet writes differences: times and offsets, mostly rising.
    pub delta: bool,
    /// Whether a file keeps its least and greatest value.
    pub statistics: bool,
    /// An empty buffer of the column's kind.
    pub buffer: fn() -> Box<dyn ColumnBuffer>,
}

/// The columns that say whose an event is, and when: the sort key is project,
/// time, id; the identity is project, source, id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumns {
    /// The unit of isolation.
    pub project: &'static str,
    /// The authenticated agent or client; the project again in tables of folds.
    pub source: &'static str,
    /// The event's id, or that of what the row is a version of.
    pub id: &'static str,
    /// Decides the day.
    pub time: &'static str,
}

/// Column of a session's profile.
pub const SESSION_PROFILE: &str = "profile_id";

/// Column of the record's offset in every table.
pub const LOG_OFFSET: &str = "log_offset";

impl Table {
    /// How many there are.
    pub const COUNT: usize = 10;

    /// Every table, in the order of their names in listings.
    pub const ALL: [Table; Table::COUNT] = [
        Table::SecurityEvents,
        Table::Messages,
        Table::Events,
        Table::Sessions,
        Table::Profiles,
        Table::Groups,
        Table::EventsBots,
        Table::SessionReplayChunks,
        Table::Deliveries,
        Table::DeliveryAttempts,
    ];

    /// The table's name in SQL and on disk.
    pub fn name(self) -> &'static str {
        match self {
            Table::SecurityEvents => "security_events",
            Table::Messages => "messages",
            Table::Events => "events",
            Table::Sessions => "sessions",
            Table::Profiles => "profiles",
            Table::Groups => "groups",
            Table::EventsBots => "events_bots",
            Table::SessionReplayChunks => "session_replay_chunks",
            Table::Deliveries => "deliveries",
            Table::DeliveryAttempts => "delivery_attempts",
        }
    }

    /// The table of that name.
    pub fn from_name(name: &str) -> Option<Table> {
        Table::ALL.into_iter().find(|table| table.name() == name)
    }

    /// The topic that its rows' offsets are of.
    pub fn topic(self) -> Topic {
        match self {
            Table::Profiles | Table::Groups => Topic::Profiles,
            Table::Deliveries | Table::DeliveryAttempts => Topic::Deliveries,
            _ => Topic::Events,
        }
    }

    /// Whether its rows are versions, of which the last one of an id counts: they
    /// are made by folds and stand in no ledger of rows.
    pub fn is_versioned(self) -> bool {
        self == Table::Sessions || self.topic() != Topic::Events
    }

    /// The column that says whose a row is, besides its project's: the profile, or the session
    /// that [`Table::is_told_by_sessions`].
    pub fn whose(self) -> Option<&'static str> {
        match self {
            Table::Events => Some("profile_id"),
            Table::Sessions | Table::Profiles => Some("id"),
            Table::SessionReplayChunks => Some("session_id"),
            _ => None,
        }
    }

    /// Whether rows are those of a profile by their session: of what a session's versions name
    /// for one, and of all the earlier ones as well.
    pub fn is_told_by_sessions(self) -> bool {
        matches!(self, Table::Sessions | Table::SessionReplayChunks)
    }

    /// Whether its rows go when their time is over. Profiles and groups stay: they are what
    /// their ids are, however long ago they were made.
    pub fn expires(self) -> bool {
        !matches!(self, Table::Profiles | Table::Groups)
    }

    /// The table that holds the rows of records with this payload.
    pub fn of_body(body: &Body<'_>) -> Option<Table> {
        match body {
            Body::Authentication(_) => Some(Table::SecurityEvents),
            Body::Message(_) => Some(Table::Messages),
            Body::Track(_) => Some(Table::Events),
            Body::Bot(_) => Some(Table::EventsBots),
            Body::Replay(_) => Some(Table::SessionReplayChunks),
            Body::Profile(_) | Body::None => None,
        }
    }

    /// The version of the column list that this build writes. Raised by one
    /// with every column added.
    pub fn version(self) -> u32 {
        1
    }

    /// Columns in order.
    pub fn columns(self) -> &'static [ColumnSpec] {
        match self {
            Table::SecurityEvents => SecurityEventsBuilder::columns(),
            Table::Messages => MessagesBuilder::columns(),
            Table::Events => EventsBuilder::columns(),
            Table::Sessions => SessionsBuilder::columns(),
            Table::Profiles => ProfilesBuilder::columns(),
            Table::Groups => GroupsBuilder::columns(),
            Table::EventsBots => BotsBuilder::columns(),
            Table::SessionReplayChunks => ReplayChunksBuilder::columns(),
            Table::Deliveries => DeliveriesBuilder::columns(),
            Table::DeliveryAttempts => AttemptsBuilder::columns(),
        }
    }

    /// The names that differ between the tables' keys.
    pub fn key_columns(self) -> KeyColumns {
        let key = |project, source, id, time| KeyColumns {
            project,
            source,
            id,
            time,
        };
        match self {
            Table::SecurityEvents => key("tenant_id", "agent_id", "event_id", "event_time"),
            Table::Messages => key("project_id", "client_id", "event_id", "event_time"),
            Table::Events => key("project_id", "client_id", "event_id", "created_at"),
            Table::Sessions | Table::Profiles | Table::Groups | Table::Deliveries => {
                key("project_id", "project_id", "id", "created_at")
            }
            Table::DeliveryAttempts => key("project_id", "project_id", "id", "started_at"),
            Table::EventsBots => key("project_id", "client_id", "id", "created_at"),
            Table::SessionReplayChunks => key("project_id", "client_id", "id", "started_at"),
        }
    }

    /// The table's Arrow schema, shared.
    pub fn schema(self) -> SchemaRef {
        static SCHEMAS: OnceLock<[SchemaRef; Table::COUNT]> = OnceLock::new();
        let schemas = SCHEMAS.get_or_init(|| Table::ALL.map(build_schema));
        schemas[self as usize].clone()
    }

    /// The columns of its files, by the places of its own columns: a column of maps is two
    /// columns of a file.
    pub fn file_columns(self) -> impl Iterator<Item = Range<usize>> {
        let mut next = 0;
        self.columns().iter().map(move |column| {
            let start = next;
            next += file_columns_of(&column.data_type);
            start..next
        })
    }

    /// The position of a column by name.
    pub fn column_index(self, name: &str) -> Option<usize> {
        self.columns().iter().position(|column| column.name == name)
    }
}

/// The Arrow schema of a table: its columns in order, with their types.
pub fn schema(table: Table) -> SchemaRef {
    table.schema()
}

fn file_columns_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::Map(..) => 2,
        _ => 1,
    }
}

fn build_schema(table: Table) -> SchemaRef {
    let field =
        |column: &ColumnSpec| Field::new(column.name, column.data_type.clone(), column.nullable);
    let fields: Vec<Field> = table.columns().iter().map(field).collect();
    Arc::new(Schema::new(fields))
}

/// Rows of one table on their way to a file.
pub trait TableBuilder: Send {
    /// Whose rows these are.
    fn table(&self) -> Table;
    /// Rows held.
    fn len(&self) -> usize;
    /// Whether no row is held.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes of values held.
    fn value_bytes(&self) -> usize;
    /// Forgets the rows and keeps the memory for the next block.
    fn clear(&mut self);
    /// The rows' numbers in the order of the table's key.
    fn sorted_order(&self) -> Vec<u32>;
    /// The columns' buffers, in order.
    fn buffers(&self) -> Vec<&dyn ColumnBuffer>;
    /// All rows in arrival order; the builder is left empty.
    fn take_batch(&mut self) -> RecordBatch;
    /// What the rows named by `order` span.
    fn bounds(&self, order: &[u32]) -> RowBounds;
}

/// What the rows of a file span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowBounds {
    /// Least event time, ms since the epoch.
    pub time_min_ms: i64,
    /// Greatest event time, ms since the epoch.
    pub time_max_ms: i64,
    /// Least offset in the log.
    pub offset_min: i64,
    /// Greatest offset in the log.
    pub offset_max: i64,
}

impl RowBounds {
    /// Bounds of no row: any row widens them.
    pub const EMPTY: RowBounds = RowBounds {
        time_min_ms: i64::MAX,
        time_max_ms: i64::MIN,
        offset_min: i64::MAX,
        offset_max: i64::MIN,
    };

    /// Widens the bounds by one row.
    pub fn add(&mut self, time_ms: i64, offset: i64) {
        self.time_min_ms = self.time_min_ms.min(time_ms);
        self.time_max_ms = self.time_max_ms.max(time_ms);
        self.offset_min = self.offset_min.min(offset);
        self.offset_max = self.offset_max.max(offset);
    }
}

fn record_batch(table: Table, arrays: Vec<ArrayRef>) -> RecordBatch {
    let batch = RecordBatch::try_new(table.schema(), arrays);
    batch.expect("the builder's columns are the schema's")
}

/// Declares a table once: its row, its builder and its list of columns.
macro_rules! declare_table {
    (
        $table:expr,
        $(#[$row_doc:meta])* row $row:ident,
        $(#[$builder_doc:meta])* builder $builder:ident,
        key: ($project:ident, $time:ident, $id:ident, $offset:ident),
        { $( $(#[$doc:meta])* $name:ident : $kind:ident = $column:literal ),+ $(,)? }
    ) => {
        $(#[$row_doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $row<'a> {
            $( $(#[$doc])* pub $name: <column::$kind as column::ColumnKind>::Value<'a>, )+
        }

        $(#[$builder_doc])*
        #[derive(Default)]
        pub struct $builder {
            $( $name: column::$kind, )+
        }

        impl $builder {
            /// Appends a row: one copy per value, no allocation once warm.
            #[inline]
            pub fn append(&mut self, row: &$row<'_>) {
                use column::ColumnKind;
                $( self.$name.push(row.$name); )+
            }

            /// The columns in order.
            pub fn columns() -> &'static [$crate::tables::ColumnSpec] {
                use column::ColumnKind;
                static COLUMNS: std::sync::OnceLock<Vec<$crate::tables::ColumnSpec>> =
                    std::sync::OnceLock::new();
                COLUMNS.get_or_init(|| vec![
                    $( $crate::tables::ColumnSpec {
                        name: $column,
                        data_type: column::$kind::data_type(),
                        nullable: column::$kind::NULLABLE,
                        dictionary: column::$kind::DICTIONARY,
                        delta: column::$kind::DELTA,
                        statistics: column::$kind::STATISTICS,
                        buffer: || Box::new(column::$kind::default()),
                    }, )+
                ])
            }
        }

        impl $crate::tables::TableBuilder for $builder {
            fn table(&self) -> $crate::tables::Table {
                $table
            }
            fn len(&self) -> usize {
                use column::ColumnBuffer;
                self.$id.rows()
            }
            fn value_bytes(&self) -> usize {
                use column::ColumnBuffer;
                0 $( + self.$name.value_bytes() )+
            }
            fn clear(&mut self) {
                use column::ColumnBuffer;
                $( self.$name.clear(); )+
            }
            fn sorted_order(&self) -> Vec<u32> {
                $crate::tables::order::sorted_order(
                    self.len(), &self.$project, &self.$time, &self.$id, &self.$offset,
                )
            }
            fn buffers(&self) -> Vec<&dyn $crate::tables::ColumnBuffer> {
                vec![ $( &self.$name, )+ ]
            }
            fn take_batch(&mut self) -> arrow_array::RecordBatch {
                use column::ColumnBuffer;
                $crate::tables::record_batch($table, vec![ $( self.$name.take(), )+ ])
            }
            fn bounds(&self, order: &[u32]) -> $crate::tables::RowBounds {
                let mut bounds = $crate::tables::RowBounds::EMPTY;
                for row in order.iter().map(|&row| row as usize) {
                    bounds.add(self.$time.row(row), self.$offset.row(row));
                }
                bounds
            }
        }
    };
}
pub(crate) use declare_table;
