//! What the bytes of each layer are for: stacked bars on one scale, and the numbers.

use nestor_layout::Class;
use nestor_stack::MachineName;
use serde::Serialize;

use crate::html::layer_colour::LayerColour;
use crate::html::svg::{Anchor, LETTER, SMALL, Svg, fitted, text_width, ticks};
use crate::html::typeset;
use crate::units;
use crate::view::{ClassShare, LayerRow, class_words};

const WIDTH: f64 = 1120.0;
const FROM: f64 = 190.0;
const TO: f64 = 1030.0;
const ROW: f64 = 44.0;
const BAR: f64 = 24.0;

/// A table of classes by layers.
#[derive(Debug, Serialize)]
pub(super) struct ClassTable {
    layers: Vec<String>,
    rows: Vec<ClassRow>,
}

#[derive(Debug, Serialize)]
struct ClassRow {
    class: &'static str,
    words: &'static str,
    /// Bytes and share at each layer.
    cells: Vec<(String, String)>,
}

/// The layers that have bytes.
fn rows(layers: &[LayerRow]) -> Vec<(&LayerRow, &[ClassShare])> {
    let recorded = layers.iter().filter(|l| !l.is_application() && l.bytes.is_some_and(|b| b > 0));
    recorded.map(|layer| (layer, layer.classes.as_slice())).collect()
}

/// Bytes whose purpose was looked for, or all where it was not.
fn total(layer: &LayerRow) -> u64 {
    match layer.classes.as_slice() {
        [] => layer.bytes.unwrap_or(0),
        classes => classes.iter().map(|share| share.bytes).sum(),
    }
}

/// `None` where no layer's bytes were attributed.
pub(super) fn classes_svg(layers: &[LayerRow]) -> Option<String> {
    if layers.iter().all(|l| l.classes.is_empty()) {
        return None;
    }
    let rows = rows(layers);
    let most = rows.iter().map(|(layer, _)| total(layer)).max()?.max(1) as f64;
    let height = rows.len() as f64 * ROW;
    let mut svg = Svg::new("classes", WIDTH, height + 26.0, "bytes of each layer by purpose");
    let scale = (TO - FROM) / most;
    for tick in binary_ticks(most) {
        let x = FROM + tick * scale;
        svg.path("grid", &format!("M{x:.1} 0V{:.1}", height + 2.0));
        svg.text("tick", x, height + 18.0, Anchor::Middle, &typeset(&units::bytes(tick as u64)));
    }
    for (index, (layer, classes)) in rows.iter().enumerate() {
        let top = index as f64 * ROW + (ROW - BAR) / 2.0;
        let middle = top + BAR / 2.0 + 4.0;
        svg.rect(&format!("layer {}", LayerColour::of_row(layer).class()), 2.0, top, 4.0, BAR);
        svg.text("name", 12.0, middle - 6.0, Anchor::Start, &fitted(&layer.short_name, FROM - 22.0, LETTER));
        let place = if layer.machine == MachineName::Unknown {
            layer.role.to_string()
        } else {
            format!("{}, {}", layer.role, layer.machine)
        };
        svg.text("what", 12.0, middle + 8.0, Anchor::Start, &fitted(&place, FROM - 22.0, SMALL));
        let mut x = FROM;
        if classes.is_empty() {
            not_attributed(&mut svg, layer, (top, total(layer) as f64 * scale));
        }
        for share in *classes {
            let width = share.bytes as f64 * scale;
            segment(&mut svg, layer, share, (x, top, width));
            x += width;
        }
        svg.text("took", WIDTH - 2.0, middle, Anchor::End, &typeset(&units::bytes(total(layer))));
    }
    Some(svg.finish())
}

fn segment(svg: &mut Svg, layer: &LayerRow, share: &ClassShare, (x, y, width): (f64, f64, f64)) {
    let bytes = units::bytes(share.bytes);
    let requests = units::plural_u64(share.requests, "request", "requests");
    let mut title = format!(
        "{}: {}\n{bytes}, {} of the layer's bytes, {requests}",
        layer.short_name,
        class_words(share.class),
        units::share(share.share)
    );
    if share.deleted_bytes > 0 {
        title.push_str(&format!(
            "\n{} of them belong to files deleted since",
            units::bytes(share.deleted_bytes)
        ));
    }
    let class = share.class.name();
    svg.titled(&format!("bar c-{class}"), &title, |svg| {
        // A gap of one pixel tells neighbours apart where their greys are alike.
        svg.rect("serve", x, y, (width - 1.0).max(0.8), BAR);
        let long = format!("{} {}", class_words(share.class), typeset(&bytes));
        let label = [long.as_str(), class_words(share.class)]
            .into_iter()
            .find(|label| text_width(label, SMALL) + 10.0 <= width);
        if let Some(label) = label {
            svg.text(
                &format!("inside on-{class}"),
                x + width / 2.0,
                y + BAR / 2.0 + 4.0,
                Anchor::Middle,
                label,
            );
        }
    });
}

/// A layer above which no file system's layout says what its bytes are for.
fn not_attributed(svg: &mut Svg, layer: &LayerRow, (y, width): (f64, f64)) {
    let title =
        format!("{}: no layout gives the purpose of its bytes; see the layers above", layer.short_name);
    svg.titled("bar c-unknown", &title, |svg| {
        svg.rect("serve", FROM, y, width, BAR);
        let label = "carries the above: not attributed here";
        if text_width(label, SMALL) + 10.0 <= width {
            svg.text("inside on-unknown", FROM + width / 2.0, y + BAR / 2.0 + 4.0, Anchor::Middle, label);
        }
    });
}

/// Round places in binary units.
fn binary_ticks(most: f64) -> Vec<f64> {
    let unit = 1024f64.powi((most.log2() / 10.0).floor() as i32);
    ticks(most / unit, 5).into_iter().skip(1).map(|tick| tick * unit).filter(|t| *t <= most).collect()
}

/// The classes that occur, and always the bytes of no known class.
pub(super) fn class_table(layers: &[LayerRow]) -> Option<ClassTable> {
    if layers.iter().all(|l| l.classes.is_empty()) {
        return None;
    }
    let columns: Vec<_> = rows(layers).into_iter().filter(|(_, classes)| !classes.is_empty()).collect();
    let occurs = |class: Class| {
        class == Class::Unknown
            || columns.iter().any(|(_, classes)| classes.iter().any(|s| s.class == class && s.bytes > 0))
    };
    let cell = |classes: &[ClassShare], class: Class| match classes.iter().find(|s| s.class == class) {
        Some(share) => (typeset(&units::bytes(share.bytes)), typeset(&units::share(share.share))),
        None => ("0".to_owned(), String::new()),
    };
    let row = |class: Class| ClassRow {
        class: class.name(),
        words: class_words(class),
        cells: columns.iter().map(|(_, classes)| cell(classes, class)).collect(),
    };
    let rows =
        Class::ALL.into_iter().filter(|class| *class != Class::Flush && occurs(*class)).map(row).collect();
    Some(ClassTable { layers: columns.iter().map(|(layer, _)| layer.name_among(layers)).collect(), rows })
}
