//! The heads and operators that graphs may name, with all their keys: the basis of validation and of the printed
//! reference.

use weir_flow::{HeadSpec, OperatorSpec};

/// Specifications of all heads, for graph checks and the reference.
#[must_use]
pub fn heads() -> Vec<HeadSpec> {
    let of_items = crate::heads::KINDS.iter().map(crate::heads::HeadKind::spec);
    of_items.chain([crate::model::generate::head_spec()]).collect()
}

/// Specifications of all operators, for graph checks and the reference.
#[must_use]
pub fn operators() -> Vec<OperatorSpec> {
    crate::operator::specs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_name_heads_that_exist_and_every_head_has_an_operator() {
        let (heads, operators) = (heads(), operators());
        for operator in &operators {
            for head in operator.heads {
                assert!(
                    heads.iter().any(|known| known.name == *head),
                    "{} names {head}",
                    operator.name
                );
            }
        }
        for head in &heads {
            assert!(
                operators
                    .iter()
                    .any(|operator| operator.heads.contains(&head.name)),
                "{}",
                head.name
            );
        }
    }

    #[test]
    fn keys_are_named_once() {
        let heads = heads();
        for head in &heads {
            let mut names: Vec<&str> = head.keys.iter().map(|key| key.name).collect();
            names.sort_unstable();
            assert!(names.is_sorted_by(|a, b| a < b), "{}: {names:?}", head.name);
        }
    }
}
