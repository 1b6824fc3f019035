//! `copy`: an image that is copied whole from the repository before the guest starts.

use super::transfers::{self, TRANSFERS, Transfer};
use crate::{Conflict, Layer, LayerDefinition, LayerSpec, OptionKind, OptionSpec, Propagation};

/// The option that says by which protocol.
const PROTOCOL: &str = "protocol";

pub(in crate::layers) static LAYER: LayerSpec = LayerSpec {
    name: "copy",
    summary: "image that is copied whole from its source, which follows the stack's medium after //",
    options: &[
        OptionSpec {
            name: PROTOCOL,
            summary: "protocol of the transfer, written without a key, as in copy:scp",
            kind: OptionKind::Word(&transfers::NAMES),
            default: None,
        },
        transfers::scp::CIPHER,
        transfers::gridftp::STREAMS,
        transfers::nbd::CONNECTIONS,
        transfers::http::RANGES,
        transfers::multicast::RATE,
    ],
    definition: LayerDefinition::SourcedImage(Propagation::Copy),
    packages: &[],
    check,
    not_buildable: None,
};

/// The options of `copy`, typed.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// The program and protocol that copies.
    pub transfer: &'static Transfer,
}

impl Layer {
    /// The options of `copy`; `None` for other layers.
    pub fn copy(&self) -> Option<CopyOptions> {
        let LayerDefinition::SourcedImage(Propagation::Copy) = self.definition() else { return None };
        let name = self.option(PROTOCOL)?;
        let transfer = TRANSFERS.into_iter().find(|transfer| transfer.name == name)?;
        Some(CopyOptions { transfer })
    }
}

/// A protocol has to be said, and has options of its own.
fn check(layer: &Layer, _below: Option<&Layer>) -> Result<(), Conflict> {
    let Some(CopyOptions { transfer }) = layer.copy() else {
        return Err(Conflict {
            option: None,
            message: "copy needs a protocol".to_owned(),
            help: format!("write one of {}, as in copy:{}", transfers::NAMES.join(", "), transfers::NAMES[0]),
        });
    };
    let name = transfer.name;
    let mut foreign = layer
        .written_options()
        .map(|(option, _)| option)
        .filter(|option| *option != PROTOCOL && !transfer.options.contains(option));
    let Some(option) = foreign.next() else { return Ok(()) };
    let has_it = TRANSFERS.iter().find(|transfer| transfer.options.contains(&option));
    let of = has_it.map_or("another protocol", |transfer| transfer.name);
    Err(Conflict {
        option: Some(option),
        message: format!("{option} is an option of {of}, and this is {name}"),
        help: match transfer.options {
            [] => format!("omit it: {name} has no options"),
            own => format!("omit it, or use copy:{of}; {name} has {}", own.join(", ")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_of_a_protocol_and_every_protocol_has_its_own() {
        for option in LAYER.options.iter().filter(|option| option.name != PROTOCOL) {
            let with_it = TRANSFERS.iter().filter(|transfer| transfer.options.contains(&option.name)).count();
            assert_eq!(with_it, 1, "{}", option.name);
        }
        for transfer in TRANSFERS {
            let known = |option: &&str| LAYER.option(option).is_some();
            assert!(transfer.options.iter().all(known), "{}", transfer.name);
            let layer = Layer::parse(&format!("copy:{}", transfer.name)).unwrap();
            layer.check().unwrap();
            assert_eq!(layer.copy().unwrap().transfer.name, transfer.name);
            assert_eq!(layer.label(), format!("copy:{}", transfer.name));
        }
    }

    #[test]
    fn options_of_another_protocol_are_refused() {
        let refused = |layer: &str| Layer::parse(layer).unwrap().check().unwrap_err().to_string();
        insta::assert_snapshot!(refused("copy"), @r"
        a stack has layers or options that exclude each other
          copy
          ^^^^ copy needs a protocol
          write one of scp, gridftp, nbd, http, rsync, multicast, as in copy:scp
        ");
        insta::assert_snapshot!(refused("copy:scp:streams=4"), @r"
        a stack has layers or options that exclude each other
          copy:scp:streams=4
                   ^^^^^^^^^ streams is an option of gridftp, and this is scp
          omit it, or use copy:gridftp; scp has cipher
        ");
        insta::assert_snapshot!(refused("copy:rsync:cipher=aes128-gcm"), @r"
        a stack has layers or options that exclude each other
          copy:rsync:cipher=aes128-gcm
                     ^^^^^^^^^^^^^^^^^ cipher is an option of scp, and this is rsync
          omit it: rsync has no options
        ");
        insta::assert_snapshot!(Layer::parse("copy:spc").unwrap_err(), @r"
        an option has an invalid value
          copy:spc
               ^^^ protocol cannot be `spc`
          protocol takes scp, gridftp, nbd, http, rsync or multicast
          did you mean scp?
        ");
    }
}
