//! Tables: projection to Arrow, the Parquet lake, compaction, SQL over it.
