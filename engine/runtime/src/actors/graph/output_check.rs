//! Whether the outputs of a model are plausible: values that are not finite, and a model that finds nothing at all, mostly
//! mean a wrong head, a wrong normalisation or a damaged file, and nothing else would show it.

use weir_flow::Inference;

/// Items without any result after which a warning is due.
const MAX_EMPTY_ITEMS: u64 = 100;

/// Checks the inferences of one module. Gives each warning once.
#[derive(Debug, Default)]
pub(super) struct OutputCheck {
    items: u64,
    /// Whether something was found, or the warning that nothing was has been given.
    settled: bool,
    not_finite: bool,
    /// Whether the warning of implausible outputs has been given.
    implausible: bool,
}

impl OutputCheck {
    /// Checks the inferences of a batch; gives the warnings that are due for the first time.
    pub(super) fn on_batch(&mut self, inferences: &[Inference]) -> Vec<String> {
        let mut warnings = Vec::new();
        let bad = |inference: &Inference| inference.not_finite;
        if !self.not_finite && inferences.iter().any(bad) {
            self.not_finite = true;
            warnings.push(format!(
                "the model returned NaN or infinite values, first at item {}: these results are meaningless; \
                 check the model file and the normalisation of its input",
                self.items + 1 + inferences.iter().position(bad).unwrap_or(0) as u64
            ));
        }
        if !self.implausible
            && let Some((item, sign)) = (1..)
                .zip(inferences)
                .find_map(|(item, inference)| Some((item, inference.implausible?)))
        {
            self.implausible = true;
            warnings.push(format!(
                "outputs are implausible, first at item {}: {sign}",
                self.items + item
            ));
        }
        self.items += inferences.len() as u64;
        self.settled |= inferences.iter().any(has_result);
        if !self.settled && self.items >= MAX_EMPTY_ITEMS {
            self.settled = true;
            warnings.push(format!(
                "no objects found in the first {} items: if they contain any, check the head, the keys of the \
                 input and the threshold",
                self.items
            ));
        }
        warnings
    }
}

fn has_result(inference: &Inference) -> bool {
    !inference.objects.is_empty()
        || inference.attribute.is_some()
        || !inference.named.is_empty()
        || inference.map.is_some()
}

#[cfg(test)]
mod tests {
    use weir_flow::{Attribute, Implausible};

    use super::*;

    fn warning_count(check: &mut OutputCheck, inference: &Inference, items: usize) -> usize {
        check.on_batch(&vec![inference.clone(); items]).len()
    }

    #[test]
    fn a_model_that_finds_nothing_is_warned_of_once() {
        let (nothing, mut check) = (Inference::default(), OutputCheck::default());
        assert_eq!(warning_count(&mut check, &nothing, 99), 0);
        let warnings = check.on_batch(&[nothing.clone(), nothing.clone()]);
        assert!(warnings[0].contains("first 101 items"), "{warnings:?}");
        assert_eq!(warning_count(&mut check, &nothing, 1_000), 0);
    }

    #[test]
    fn a_model_that_found_something_may_find_nothing_later() {
        let found = Inference::from(Some(Attribute::Number { value: 1.0 }));
        let mut check = OutputCheck::default();
        assert_eq!(warning_count(&mut check, &found, 1), 0);
        assert_eq!(warning_count(&mut check, &Inference::default(), 1_000), 0);
    }

    #[test]
    fn attributes_with_names_of_their_own_are_results() {
        let found = Inference {
            named: vec![("colour".into(), Attribute::Number { value: 1.0 })],
            ..Inference::default()
        };
        assert_eq!(warning_count(&mut OutputCheck::default(), &found, 1_000), 0);
    }

    #[test]
    fn implausible_outputs_are_warned_of_once() {
        let bad = Inference {
            implausible: Some(Implausible::Score(7.5)),
            ..Inference::default()
        };
        let mut check = OutputCheck::default();
        let warnings = check.on_batch(&[Inference::default(), bad.clone()]);
        assert!(warnings[0].contains("item 2: a score is 7.5"), "{warnings:?}");
        assert_eq!(warning_count(&mut check, &bad, 9), 0);
    }

    #[test]
    fn outputs_that_are_not_finite_are_warned_of_once() {
        let bad = Inference {
            not_finite: true,
            ..Inference::default()
        };
        let mut check = OutputCheck::default();
        assert_eq!(warning_count(&mut check, &Inference::default(), 3), 0);
        let warnings = check.on_batch(&[Inference::default(), bad.clone()]);
        assert!(warnings[0].contains("first at item 5"), "{warnings:?}");
        assert_eq!(warning_count(&mut check, &bad, 9), 0);
    }
}
