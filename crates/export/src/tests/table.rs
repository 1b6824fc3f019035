use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;

use crate::{Table, Values};

fn parquet_rows(table: &Table) -> Vec<String> {
    let mut file = tempfile::tempfile().unwrap();
    table.write_parquet(&mut file).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect()
}

fn some_table() -> Table {
    Table::default()
        .with("stack", Values::Text(vec![Some("ext4/kvm,\"x\"".into()), None]))
        .with("runs", Values::Whole(vec![Some(-3), None]))
        .with("ratio", Values::Number(vec![Some(0.5), Some(f64::NAN)]))
}

#[test]
fn gaps_are_empty_fields() {
    assert_eq!(some_table().csv(), "stack,runs,ratio\n\"ext4/kvm,\"\"x\"\"\",-3,0.5\n,,\n");
    assert_eq!(Table::default().csv(), "\n");
}

#[test]
fn gaps_are_null_in_parquet() {
    insta::assert_snapshot!(parquet_rows(&some_table()).join("\n"), @r#"
    {stack: "ext4/kvm,"x"", runs: -3, ratio: 0.5}
    {stack: null, runs: null, ratio: null}
    "#);
}

#[test]
fn a_table_without_rows_is_a_file() {
    assert_eq!(parquet_rows(&Table::default().with("stack", Values::Text(Vec::new()))), Vec::<String>::new());
}

proptest! {
    /// Both files have every row, and numbers come back to the bit.
    #[test]
    fn numbers_come_back(numbers in prop::collection::vec(prop::option::of(-1e300..1e300_f64), 1..40)) {
        let table = Table::default().with("x", Values::Number(numbers.clone()));
        let csv = table.csv();
        let read: Vec<Option<f64>> = csv.lines().skip(1).map(|line| line.parse().ok()).collect();
        prop_assert_eq!(&read, &numbers);
        prop_assert_eq!(parquet_rows(&table).len(), numbers.len());
    }
}
