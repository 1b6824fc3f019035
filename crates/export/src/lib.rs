//! Traces in the formats of other programs: Perfetto, Parquet, CSV.
