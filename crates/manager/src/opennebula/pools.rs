//! Lists of templates and of virtual machines.

use crate::xml::{children, parse, text};
use crate::{InstanceId, ManagerError};

/// The number of the one template of a name, in an answer of `one.templatepool.info`.
///
/// # Errors
/// There is none, or several have the name, or it is no such answer.
pub fn template_named(pool: &str, name: &str) -> Result<i32, ManagerError> {
    let document = parse(pool)?;
    let root = document.root_element();
    let named = children(root, "VMTEMPLATE").filter(|template| text(*template, &["NAME"]) == Some(name));
    let numbers: Vec<i32> = named.filter_map(|template| text(template, &["ID"])?.parse().ok()).collect();
    match numbers[..] {
        [number] => Ok(number),
        [] => {
            let has: Vec<&str> =
                children(root, "VMTEMPLATE").filter_map(|template| text(template, &["NAME"])).collect();
            let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
            Err(ManagerError::Refused {
                action: format!("template={name}"),
                code: "no such template".to_owned(),
                message: format!("the user may use these templates: {}", crate::xml::beginning(&has)),
                request: None,
            })
        }
        _ => Err(ManagerError::Refused {
            action: format!("template={name}"),
            code: "not one template".to_owned(),
            message: format!("{} templates have this name; write the number of one", numbers.len()),
            request: None,
        }),
    }
}

/// The virtual machines of a name, in an answer of `one.vmpool.info`.
///
/// # Errors
/// It is no such answer.
pub fn vms_named(pool: &str, name: &str) -> Result<Vec<InstanceId>, ManagerError> {
    let document = parse(pool)?;
    let named = children(document.root_element(), "VM").filter(|vm| text(*vm, &["NAME"]) == Some(name));
    Ok(named.filter_map(|vm| text(vm, &["ID"]).and_then(InstanceId::read)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "<VMTEMPLATE_POOL><VMTEMPLATE><ID>0</ID><NAME>small</NAME></VMTEMPLATE>\
                        <VMTEMPLATE><ID>1</ID><NAME>twice</NAME></VMTEMPLATE>\
                        <VMTEMPLATE><ID>2</ID><NAME>twice</NAME></VMTEMPLATE></VMTEMPLATE_POOL>";

    #[test]
    fn a_template_has_to_be_one() {
        assert_eq!(template_named(POOL, "small"), Ok(0));
        let said = |name| template_named(POOL, name).unwrap_err().to_string();
        assert!(
            said("large").contains("the user may use these templates: small, twice, twice"),
            "{}",
            said("large")
        );
        assert!(said("twice").contains("2 templates have this name; write the number of one"));
    }

    #[test]
    fn machines_are_found_by_their_whole_name() {
        let pool = "<VM_POOL><VM><ID>4</ID><NAME>nestor-1</NAME></VM><VM><ID>5</ID><NAME>nestor-12</NAME></VM></VM_POOL>";
        let found = vms_named(pool, "nestor-1").unwrap();
        assert_eq!(found, [InstanceId::read("4").unwrap()]);
        assert!(vms_named("<VM_POOL/>", "nestor-1").unwrap().is_empty());
    }
}
