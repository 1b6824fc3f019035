//! Reading and printing stacks, over everything the registry has.

use nestor_stack::{
    BitRate, Bytes, Layer, LayerDefinition, LayerSpec, MachineLabel, MachineSegment, Offer, OptionKind,
    OptionSpec, Percentage, Place, Sectors, SizeRule, Stack, StackError, StackErrorKind, TimeSpan, registry,
};
use proptest::prelude::*;

/// A value of an option, in some spelling.
fn value(kind: &OptionKind) -> BoxedStrategy<String> {
    match *kind {
        OptionKind::Flag => prop_oneof![Just("on".to_owned()), Just("off".to_owned())].boxed(),
        OptionKind::Choice(words) | OptionKind::Word(words) => {
            proptest::sample::select(words).prop_map(str::to_owned).boxed()
        }
        OptionKind::Number { min, max } => (min..=max, 0usize..3)
            .prop_map(|(number, zeros)| format!("{}{number}", "0".repeat(zeros)))
            .boxed(),
        OptionKind::Size { min, max, rule } => {
            let size = match rule {
                SizeRule::PowerOfTwo => {
                    (min.get().ilog2()..=max.get().ilog2()).prop_map(|shift| 1u64 << shift).boxed()
                }
                SizeRule::MultipleOf(unit) => {
                    (min.get().div_ceil(unit)..=max.get() / unit).prop_map(move |n| n * unit).boxed()
                }
            };
            (size, any::<bool>())
                .prop_map(|(size, exact)| if exact { size.to_string() } else { Bytes(size).to_string() })
                .boxed()
        }
        OptionKind::BitRate { min, max } => (min.get()..=max.get())
            .prop_flat_map(|bits| prop_oneof![Just(format!("{bits}bit")), Just(BitRate(bits).to_string())])
            .boxed(),
        OptionKind::TimeSpan { min, max } => (min.get()..=max.get())
            .prop_flat_map(|ns| prop_oneof![Just(format!("{ns}ns")), Just(TimeSpan(ns).to_string())])
            .boxed(),
        OptionKind::Percentage { max } => {
            (0..=max.get()).prop_map(|millionths| Percentage(millionths).to_string()).boxed()
        }
        OptionKind::Sectors { min, max } => (min.0..=max.0)
            .prop_flat_map(|count| prop_oneof![Just(format!("{count}s")), Just(Sectors(count).to_string())])
            .boxed(),
        OptionKind::Positional | OptionKind::Name | OptionKind::Added { .. } => {
            "[A-Za-z0-9._-]{1,12}".boxed()
        }
        OptionKind::List => "[a-z0-9_=.-]{1,8}(\\+[a-z0-9_=.-]{1,8}){0,2}".boxed(),
        OptionKind::Path => "(/[a-zA-Z0-9:=._ é日-]{1,6}){1,4}".boxed(),
    }
}

/// An option in some spelling.
fn option(spec: &'static OptionSpec) -> BoxedStrategy<String> {
    let name = spec.name;
    let kind = spec.kind;
    (value(&kind), any::<bool>())
        .prop_map(move |(value, bare)| match kind {
            OptionKind::Path => value,
            OptionKind::Flag if bare && value == "on" => name.to_owned(),
            _ => format!("{name}={value}"),
        })
        .boxed()
}

/// A layer with some of its options, in any order.
fn layer(spec: &'static LayerSpec) -> BoxedStrategy<String> {
    let is_path = spec.options.iter().any(|o| o.kind == OptionKind::Path);
    let options: Vec<&OptionSpec> = spec.options.iter().collect();
    let count = if is_path { 1..=1 } else { 0..=options.len() };
    proptest::sample::subsequence(options, count)
        .prop_shuffle()
        .prop_flat_map(|chosen| chosen.into_iter().map(option).collect::<Vec<_>>())
        .prop_map(move |options| {
            let options: String = options.iter().map(|o| format!(":{o}")).collect();
            format!("{}{options}", spec.name)
        })
        .boxed()
}

/// A stack: from a medium upwards, each layer one that can stand on the one below.
fn stack() -> impl Strategy<Value = String> {
    proptest::collection::vec(any::<proptest::sample::Index>(), 1..9).prop_flat_map(|picks| {
        let mut offers: Option<Offer> = None;
        let mut specs = Vec::new();
        for pick in picks {
            let fits = |spec: &&&'static LayerSpec| match offers {
                None => matches!(spec.definition, LayerDefinition::Medium(_)),
                Some(offer) => spec.definition.offers(Some(offer)).is_some(),
            };
            let choice: Vec<_> = registry().iter().filter(fits).collect();
            let spec: &'static LayerSpec = pick.get::<&&'static LayerSpec>(&choice);
            offers = spec.definition.offers(offers);
            specs.insert(0, spec);
        }
        let has_source = specs.iter().any(|spec| spec.definition.source().is_some());
        // What is of another machine cannot be at the top.
        if !matches!(offers, Some(Offer::Block | Offer::Dir | Offer::Image)) {
            let uses = |spec: &&&'static LayerSpec| {
                matches!(spec.definition.offers(offers), Some(Offer::Block | Offer::Dir))
            };
            specs.insert(0, registry().iter().find(uses).expect("what is remote can be used"));
        }
        let layers: Vec<_> = specs.into_iter().map(layer).collect();
        layers.prop_map(move |layers| {
            let source = if has_source { SOURCE } else { "" };
            format!("{}{source}", layers.join("/"))
        })
    })
}

/// The source of a layer that wants one.
const SOURCE: &str = "//link:rate=10gbit/raw:size=3G/ext4/hdd:wd-re3";

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_as_the_same_stack(text in stack()) {
        match Stack::parse(&text) {
            Ok(stack) => {
                let printed = stack.to_string();
                let again = Stack::parse(&printed).unwrap();
                prop_assert_eq!(&again, &stack);
                prop_assert_eq!(again.to_string(), printed.clone());
                for layer in again.layers().iter().chain(again.source()) {
                    prop_assert_eq!(&printed[layer.span.clone()], layer.label());
                    prop_assert_eq!(&printed[layer.name_span()], layer.name());
                    prop_assert_eq!(&Layer::parse(&layer.label()).unwrap(), layer);
                    for option in layer.spec.options {
                        if let Some(span) = layer.option_span(option.name) {
                            prop_assert!(layer.is_set(option.name));
                            prop_assert!(layer.span.start < span.start && span.end <= layer.span.end);
                        }
                    }
                }
                let lines = [stack.layers(), stack.source()].map(|line| line.iter().cloned());
                let [main, source] = lines;
                let put_together = Stack::with_source(main, source).unwrap();
                prop_assert_eq!(put_together.text(), printed.as_str());
                for (layer, read) in put_together.layers().iter().zip(again.layers()) {
                    prop_assert_eq!(&layer.span, &read.span);
                    for option in layer.spec.options {
                        prop_assert_eq!(layer.option_span(option.name), read.option_span(option.name));
                        prop_assert_eq!(layer.value_span(option.name), read.value_span(option.name));
                    }
                }
                let json = serde_json::to_string(&stack).unwrap();
                prop_assert_eq!(serde_json::from_str::<Stack>(&json).unwrap(), stack);
            }
            // Types fit by construction; only options that exclude each other are left, and a second layer that wants the source.
            Err(error) => prop_assert!(
                matches!(error.kind(), StackErrorKind::Conflict | StackErrorKind::Source), "{}", error
            ),
        }
    }

    #[test]
    fn the_machines_partition_the_stack(text in stack()) {
        let Ok(stack) = Stack::parse(&text) else { return Ok(()) };
        let machines = stack.machines();
        let crossings = stack.crossings().count();
        let repositories = usize::from(!stack.source().is_empty());
        prop_assert_eq!(machines.len(), crossings + 1 + repositories);
        let crossing = |machine: &MachineSegment<'_>| machine.crossing.map(|at| stack.layer(at).clone());
        let mut seen: Vec<Layer> = Vec::new();
        let is_repository = |machine: &&MachineSegment<'_>| machine.label == MachineLabel::Repository;
        for machine in machines.iter().rev().filter(|machine| !is_repository(machine)) {
            seen.extend(machine.layers.iter().cloned().chain(crossing(machine)));
        }
        prop_assert_eq!(&seen[..], stack.layers());
        for repository in machines.iter().filter(is_repository) {
            let source: Vec<Layer> = crossing(repository).into_iter().chain(repository.layers.iter().cloned()).collect();
            prop_assert_eq!(&source[..], stack.source());
        }
    }

    #[test]
    fn every_stack_has_baselines(text in stack()) {
        let Ok(stack) = Stack::parse(&text) else { return Ok(()) };
        for baseline in [stack.on_raw_disk(), stack.native()] {
            prop_assert_eq!(baseline.medium().name(), stack.medium().name());
        }
    }

    #[test]
    fn any_text_is_read_or_refused_with_a_caret_in_it(text in "\\PC{0,40}") {
        refused_well(&text);
    }

    #[test]
    fn any_text_is_a_layer_or_refused_with_a_caret_in_it(text in "[/:=+{}, \u{1b}日é0a-]{0,6}|\\PC{0,40}") {
        refused_as_a_layer(&text);
    }

    #[test]
    fn any_near_stack_is_read_or_refused_with_a_caret_in_it(
        text in stack(),
        at in any::<proptest::sample::Index>(),
        noise in "[/:=+{}, \u{1b}日é0a-]{0,3}",
        cut in 0usize..4,
    ) {
        let mut characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len() + 1);
        let end = (at + cut).min(characters.len());
        characters.splice(at..end, noise.chars());
        let near: String = characters.into_iter().collect();
        refused_well(&near);
        refused_as_a_layer(&near);
    }
}

fn refused_as_a_layer(text: &str) {
    let Err(error) = Layer::parse(text) else { return };
    assert!(text.get(error.span()).is_some(), "{:?} is no part of {text:?}", error.span());
    assert!(error.help().is_some_and(|help| !help.is_empty()), "no help in:\n{error}");
}

#[test]
fn what_is_hardly_a_text_is_no_layer() {
    for text in ["", " ", ":", "/", "é", "//", "::", "/:", ":/", "=", "\0", "link:", "link/", "/link"] {
        assert!(Layer::parse(text).is_err(), "{text:?}");
        refused_as_a_layer(text);
    }
    insta::assert_snapshot!(Layer::parse("").unwrap_err(), @"
    a stack has an empty layer
      
      ^ a layer is missing here
      write a layer's name, and its options if it is to have some, as in kvm:cache=none
    ");
}

fn refused_well(text: &str) {
    let Err(error) = Stack::parse(text) else { return };
    assert_eq!(error.stack(), text);
    assert!(text.get(error.span()).is_some(), "{:?} is no part of {text:?}", error.span());
    let printed = error.to_string();
    assert!(printed.lines().count() >= 4, "no help in:\n{printed}");
    assert!(!printed.contains('\u{1b}'));
    if let Some(suggestion) = error.suggestion() {
        Stack::parse(suggestion).unwrap_or_else(|e| panic!("a suggestion is wrong:\n{printed}\n\n{e}"));
        assert!(error.help().unwrap().ends_with(suggestion));
    }
}

#[test]
fn stacks_are_made_of_others_without_their_text() {
    let stack = Stack::parse("ext4/kvm/raw/xfs/hdd:size=1G").unwrap();
    let (kvm, _) = stack.indexed_layers().nth(1).unwrap();
    let cached = stack.layer(kvm).clone().with("cache", "writeback").unwrap();
    let other = stack.with_layer(kvm, cached).unwrap();
    assert_eq!(other.to_string(), "ext4/kvm:cache=writeback/raw/xfs/hdd:size=1G");
    let default = other.layer(kvm).clone().with("cache", "none").unwrap();
    assert_eq!(other.with_layer(kvm, default).unwrap(), stack);
    assert_eq!(other.layer(kvm).clone().without("cache"), *stack.layer(kvm));
    let medium = Layer::parse("dev:/dev/sdb").unwrap();
    let on_device = stack.with_layer(stack.medium_index(), medium.clone()).unwrap();
    assert_eq!(on_device.to_string(), "ext4/kvm/raw/xfs/dev:/dev/sdb");
    let misfit = stack.with_layer(kvm, medium).unwrap_err();
    assert_eq!(misfit.kind(), StackErrorKind::BelowMedium, "{misfit}");
    let wrong = stack.layer(kvm).clone().with("cache", "always").unwrap_err();
    assert_eq!((wrong.kind(), wrong.stack()), (StackErrorKind::BadValue, "cache=always"));
    let options = Layer::parse("kvm:memory=1G:aio=native").unwrap();
    let joined = Layer::parse("kvm:cpus=2").unwrap().joined(&options).unwrap();
    assert_eq!(joined.label(), "kvm:aio=native:memory=1G:cpus=2");
    assert_eq!(joined.joined(&options).unwrap_err().kind(), StackErrorKind::DuplicateOption);
    assert!(options.joined(stack.medium()).is_err());
    let two = Layer::parse("raw/xfs").unwrap_err();
    assert_eq!((two.kind(), two.span()), (StackErrorKind::Type, 3..7));
}

#[test]
fn spellings_with_one_meaning_are_one_stack() {
    let canonical = [
        ("ext4/kvm:cache=none:aio=threads/hdd", "ext4/kvm/hdd"),
        ("ext4/kvm:memory=1024M:cpus=02/hdd", "ext4/kvm:memory=1G:cpus=2/hdd"),
        ("ext4/kvm:cpus=2:memory=1048576KiB/hdd", "ext4/kvm:memory=1G:cpus=2/hdd"),
        ("ext4/kvm:iothread=on/hdd", "ext4/kvm:iothread/hdd"),
        ("ext4/kvm:iothread=off/hdd", "ext4/kvm/hdd"),
        ("ext4/hdd:wcache", "ext4/hdd:wcache=on"),
        ("ext4/hdd:profile=wd-re3", "ext4/hdd:wd-re3"),
        ("ext4/hdd:size=1G:wd-re3", "ext4/hdd:wd-re3:size=1G"),
        ("ext4/hdd:profile=wcache", "ext4/hdd:profile=wcache"),
        ("ext4:mount=noatime+commit=30/hdd", "ext4:mount=noatime+commit=30/hdd"),
        ("xfs/dev:/dev/sdb", "xfs/dev:/dev/sdb"),
        ("xfs/file:/srv/a:b=c/disk.img", "xfs/file:/srv/a:b=c/disk.img"),
        ("kvm/qcow2:cluster=65536/ext4/hdd:at=0", "kvm/qcow2/ext4/hdd"),
        ("nfs:vers=3:rsize=65536/link:rate=1000Mbit/xfs/raid0", "nfs:vers=3:rsize=64k/link/xfs/raid0"),
        ("nfs:sync:export=sync/link:delay=0.1ms:queue=256k:loss=0.0%/xfs/hdd", "nfs:sync/link/xfs/hdd"),
        ("nfs/link:loss=0.50%:rate=2500mbit/xfs/hdd", "nfs/link:rate=2.5gbit:loss=0.5%/xfs/hdd"),
        ("part:start=2048s/hdd", "part/hdd"),
        ("part:start=32256/part:start=2s/hdd", "part:start=63s/part:start=1k/hdd"),
    ];
    for (written, printed) in canonical {
        assert_eq!(Stack::parse(written).unwrap().to_string(), printed);
    }
}

#[test]
fn options_have_their_value_or_their_default() {
    let stack =
        Stack::parse("btrfs:nocow:mount=a+b=c/kvm:disk=lsi/qcow2:l2-cache=1M/xfs/hdd:wd-re3:wcache=off")
            .unwrap();
    let [btrfs, kvm, qcow2, xfs, hdd] = stack.layers() else { panic!("five layers") };
    assert!(btrfs.is_on("nocow"));
    assert_eq!(btrfs.list("mount").collect::<Vec<_>>(), ["a", "b=c"]);
    assert_eq!(kvm.option("disk"), Some("lsi"));
    assert_eq!(kvm.size("memory"), Some(Bytes::mib(256)));
    assert_eq!((kvm.number("cpus"), kvm.is_set("cpus")), (Some(1), false));
    assert_eq!(kvm.option("sched"), None);
    assert_eq!(qcow2.size("l2-cache"), Some(Bytes::mib(1)));
    assert_eq!(xfs.option("no such option"), None);
    let disk = hdd.modelled_disk().unwrap();
    assert_eq!((disk.profile, disk.write_cache, disk.size), (Some("wd-re3"), Some(false), Bytes::gib(16)));
    assert_eq!(hdd.label(), "hdd:wd-re3:wcache=off");
    let roles: Vec<_> = stack.indexed_layers().map(|(at, _)| stack.role(at).to_string()).collect();
    assert_eq!(roles, ["guest fs", "virtual machine", "qcow2 image", "host fs", "disk"]);
}

#[test]
fn every_layer_says_what_it_is() {
    let help = nestor_stack::layers_help();
    assert_eq!(help.len(), registry().len());
    for (layer, spec) in help.iter().zip(registry()) {
        assert!(!layer.summary.is_empty(), "{} has no summary", layer.name);
        assert!(spec.name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        assert_eq!(
            registry().iter().filter(|other| other.name == spec.name).count(),
            1,
            "{} twice",
            spec.name
        );
        for option in &layer.options {
            assert!(
                !option.summary.is_empty() && !option.values.is_empty(),
                "{}:{}",
                layer.name,
                option.name
            );
            assert_eq!(spec.options.iter().filter(|o| o.name == option.name).count(), 1);
        }
        let positional = spec.options.iter().filter(|o| o.kind.is_positional()).count();
        let paths = spec.options.iter().filter(|o| o.kind == OptionKind::Path).count();
        assert!(positional <= 1 && (paths == 0 || spec.options.len() == 1));
    }
}

/// The shortest stack for a layer to stand on, with its separator, and the source that it wants.
fn below(spec: &LayerSpec) -> &'static str {
    if spec.definition.source().is_some() {
        return "/ext4/hdd//link/raw/ext4/hdd";
    }
    match spec.definition.needs().next() {
        None => "",
        Some(Offer::Block) => "/hdd",
        Some(Offer::Dir) => "/ext4/hdd",
        Some(Offer::Image) => "/raw/ext4/hdd",
        Some(Offer::RemoteBlock | Offer::RemoteImage) => "/link/hdd",
        Some(Offer::RemoteDir) => "/link/ext4/hdd",
    }
}

/// The layers by their names alone; one that needs a path or a word has it.
fn named(spec: &LayerSpec) -> String {
    let needed = spec.options.iter().find_map(|option| match option.kind {
        OptionKind::Path => Some("/srv/a"),
        OptionKind::Word(words) => words.first().copied(),
        _ => None,
    });
    needed.map_or_else(|| spec.name.to_owned(), |needed| format!("{}:{needed}", spec.name))
}

/// That what is suggested is a stack which can be built in virtual time, or in the place that the help names.
fn suggests_what_is_accepted(text: &str, error: &StackError) {
    let help = error.help().unwrap_or_else(|| panic!("{text} is not mended:\n{error}"));
    let suggestion = error.suggestion().unwrap_or_else(|| panic!("{text} is not mended:\n{error}"));
    let real = "emulated:time=real";
    let accepted = Stack::parse(suggestion).and_then(|stack| {
        let is_of_the_user = stack.medium().modelled_disk().is_none();
        let usual = if is_of_the_user { "this" } else { "emulated:time=virtual" };
        let place: Place = if help.contains(real) { real } else { usual }.parse().unwrap();
        stack.require_buildable().and_then(|()| stack.require_place(&place))
    });
    accepted.unwrap_or_else(|e| panic!("{text} is mended wrongly:\n{error}\n{e}"));
    let there = error.clone().in_place(&real.parse().unwrap());
    assert_eq!(there.suggestion(), Some(suggestion));
    assert!(!there.help().unwrap().contains("--on"), "needs what is given:\n{there}");
}

/// What is wrong with a text, if it is no stack that can be built. Options that exclude each other are not looked at.
fn error_of(text: &str) -> Option<StackError> {
    let error = match Stack::parse(text) {
        Ok(stack) => stack.require_buildable().err(),
        Err(error) => Some(error),
    };
    error.filter(|error| error.kind() != StackErrorKind::Conflict)
}

#[test]
fn every_two_layers_that_do_not_fit_together_are_answered_with_a_stack_that_is_accepted() {
    let ends_a_stack = |spec: &&&LayerSpec| !named(spec).contains('/');
    // Xen has no network yet, so there is nothing to suggest for a stack with both.
    let has_answer = |text: &str| {
        let has = |layers: &[&str]| text.split('/').any(|layer| layers.contains(&layer));
        let not_yet: Vec<&str> =
            registry().iter().filter(|spec| spec.not_buildable.is_some()).map(|spec| spec.name).collect();
        // And what the user has installed stands on media of the user's, not on those that are written here.
        let hosted: Vec<&str> =
            registry().iter().filter(|spec| spec.hosted().is_some()).map(|spec| spec.name).collect();
        // A source is of the lab's machine with the medium, and there is no third machine beside its two.
        let third = ["xen", "dom0", "kvm", "tcg", "link", "nfs", "nbd"];
        !(has(&hosted)
            || has(&["copy:scp", "overlay"]) && (has(&third) || text.contains("/srv/"))
            || has(&not_yet)
            || has(&["xen", "dom0"]) && has(&["link", "nfs", "nbd"]))
    };
    for upper in registry().iter().filter(ends_a_stack) {
        for lower in registry() {
            let text = format!("{}/{}{}", named(upper), named(lower), below(lower));
            error_of(&text)
                .filter(|_| has_answer(&text))
                .inspect(|error| suggests_what_is_accepted(&text, error));
        }
        for top in ["ext4", "raw", "nfs", "nbd", "loop"] {
            let text = format!("{top}/{}{}", named(upper), below(upper));
            error_of(&text)
                .filter(|_| has_answer(&text))
                .inspect(|error| suggests_what_is_accepted(&text, error));
        }
    }
}

#[test]
fn what_is_suggested_in_place_of_some_layers_over_a_link_is_accepted() {
    /// Of more layers, some are so far from a stack that nothing is suggested.
    const ALWAYS_MENDED: usize = 2;
    let layers = ["ext4", "raw", "loop", "kvm", "link", "nfs", "nbd"];
    let mut tops = vec![String::new()];
    for count in 1..=4 {
        tops = tops.iter().flat_map(|top| layers.map(|layer| format!("{top}{layer}/"))).collect();
        for text in tops.iter().filter(|top| top.contains("link")).map(|top| format!("{top}hdd")) {
            let Some(error) = error_of(&text) else { continue };
            if count <= ALWAYS_MENDED || error.suggestion().is_some() {
                suggests_what_is_accepted(&text, &error);
            } else {
                assert!(!error.help().unwrap().contains("--on"), "{error}");
            }
        }
    }
}

#[test]
fn every_default_is_in_canonical_form() {
    for spec in registry() {
        for option in spec.options.iter().filter(|o| o.default.is_some()) {
            let default = option.default.unwrap();
            let above = if matches!(spec.definition, LayerDefinition::Link) { "nbd/" } else { "" };
            let below = below(spec);
            let text = format!("{above}{}:{}={default}{below}", spec.name, option.name);
            let stack = Stack::parse(&text).unwrap();
            assert_eq!(
                stack.to_string(),
                format!("{above}{}{below}", spec.name),
                "default of {}",
                option.name
            );
            let layer = stack.layers().iter().find(|layer| layer.name() == spec.name).unwrap();
            assert_eq!(layer.option(option.name), Some(default));
        }
    }
}

#[test]
fn the_table_of_the_design_is_read() {
    for text in [
        "ext4/hdd",
        "ext3/kvm/hdd",
        "ext3/kvm/raw/jfs/hdd",
        "ext4/kvm:disk=lsi:cache=writethrough/vmdk/ext4/hdd:wd-re3",
        "ext2/kvm/raw/nfs/link/ext4/hdd",
        "nfs/link/ext2/loop/raw/ext4/hdd",
        "ext2/kvm/raw/nfs:vers=3/link/xfs/hdd",
        "nfs:vers=3:rsize=64k:wsize=512k/link:rate=10gbit:delay=1.5ms:loss=0.1%/xfs/raid0",
        "nfs:vers=3/kvm/link/ext2/loop/raw/xfs/hdd",
        "ext2/part:start=63s/kvm/raw/nfs/link/xfs/hdd",
        "ext4/nbd/link/hdd",
        "ext4/nbd/link/qcow2/xfs/hdd",
        "ext4/kvm/nbd/link/hdd",
        "ext4/nbd:sched=none/kvm/kvm/link/hdd",
        "ext4/kvm/qcow2/xfs/kvm/raw/xfs/hdd",
        "ext3/kvm/copy:scp/ext3/hdd:wd-re3//link:rate=100mbit/raw:size=3G/ext3/hdd:wd-re3",
        "ext4/kvm/copy:http:ranges=4/ext4/hdd//link/qcow2/xfs/nvme",
        "ext4/kvm/overlay:over=nfs:prefetch/ext4/hdd//link:memory=2G/raw/ext4/hdd",
        "ext4/loop/copy:nbd/ext4/file:/srv/disk.img//link/raw/ext4/dev:/dev/sdb",
        "xfs/dev:/dev/sdb",
        "xfs/file:/srv/disk.img",
    ] {
        let stack = Stack::parse(text).unwrap();
        assert_eq!(stack.to_string(), text);
        stack.require_directory().unwrap();
    }
    assert_eq!(Stack::parse("kvm/hdd").unwrap().offers(), Offer::Block);
}
