//! `nestor link check`: a served link beside its model.

mod support;

use support::{Sandbox, json, refused, said};

#[test]
fn a_link_holds_in_every_row_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let checked = json(&said(&sandbox, &["link", "check", "link:rate=100mbit:delay=5ms", "--json"]));
    assert_eq!(checked[0]["link"], "link:rate=100mbit:delay=5ms");
    assert_eq!(checked[0]["verdict"], "holds");
    let rows = checked[0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 23);
    for row in rows {
        assert_eq!(row["verdict"], "holds", "{row}");
    }
    let delay = rows.iter().find(|row| row["quantity"] == "delay").unwrap();
    assert!((delay["measured"].as_f64().unwrap() - 5e6).abs() < 10.0, "{delay}");
    assert_eq!(sandbox.left_behind(), Vec::<String>::new());
}

#[test]
fn what_is_no_link_is_refused() {
    let sandbox = Sandbox::new();
    let said = refused(&sandbox, &["link", "check", "ext4"]);
    assert!(said.contains("ext4 is not a link"), "{said}");
    let said = refused(&sandbox, &["link", "check", "link:rate=fast"]);
    assert!(said.contains("rate"), "{said}");
}
