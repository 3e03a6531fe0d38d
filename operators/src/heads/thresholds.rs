//! Operating thresholds: from which score on a detection of a class is an event, and not a candidate alone.
//!
//! What score is worth reporting differs from class to class: `weir score --curve` finds where precision and recall balance
//! best. Candidates below it stay in the results of a request, for trackers and for that curve.

use weir_flow::Settings;

use super::labels::Labels;

/// The operating threshold of each class.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClassThresholds(Vec<f32>);

impl ClassThresholds {
    /// Reads the key `class_thresholds`, each text a class and its score (`"car 0.45"`); `score_threshold` for the other classes.
    ///
    /// # Errors
    /// A text of another form, a score that is none, an unknown class, or a class that has two.
    pub(super) fn read(settings: &Settings, labels: &Labels, score_threshold: f32) -> Result<Self, String> {
        let mut scores: Vec<Option<f32>> = vec![None; labels.names().len()];
        for text in settings.texts("class_thresholds").unwrap_or_default() {
            let (name, score) = parse(text)?;
            let mut known = false;
            // Classes may share a name, as types of plates do.
            for (of_class, label) in scores.iter_mut().zip(labels.names()) {
                if **label == *name {
                    known = true;
                    if of_class.replace(score).is_some() {
                        return Err(format!("class_thresholds: \"{name}\" has two"));
                    }
                }
            }
            if !known {
                return Err(format!(
                    "class_thresholds: the model has no class \"{name}\"; it has {}",
                    labels.listed()
                ));
            }
        }
        let scores = scores.into_iter();
        Ok(Self(
            scores.map(|score| score.unwrap_or(score_threshold)).collect(),
        ))
    }

    /// The least of them; infinite where there is no class.
    pub(super) fn least(&self) -> f32 {
        self.0.iter().copied().fold(f32::INFINITY, f32::min)
    }

    /// That of a class; `None` where there is no such class.
    pub(super) fn of(&self, class: usize) -> Option<f32> {
        self.0.get(class).copied()
    }

    /// Whether a detection of that class and score is a candidate alone.
    pub(super) fn is_candidate(&self, class: usize, score: f32) -> bool {
        self.of(class).is_some_and(|least| score < least)
    }
}

/// A class and its score.
fn parse(text: &str) -> Result<(&str, f32), String> {
    let parsed = text.trim().rsplit_once(char::is_whitespace);
    let parsed = parsed.and_then(|(name, score)| Some((name.trim(), score.parse::<f32>().ok()?)));
    parsed
        .filter(|(name, score)| !name.is_empty() && (0.0..=1.0).contains(score))
        .ok_or_else(|| {
            format!(
                "class_thresholds: \"{text}\" is no class with its score: write \"car 0.45\", from 0 to 1"
            )
        })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_flow::Value;

    use super::*;

    fn read(texts: &[&str]) -> Result<ClassThresholds, String> {
        let labels = Labels::of(&["car", "traffic light", "plate", "plate"].map(Arc::from));
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        let settings = Settings([("class_thresholds".to_owned(), Value::Texts(texts))].into());
        ClassThresholds::read(&settings, &labels, 0.25)
    }

    #[test]
    fn a_class_without_a_threshold_has_the_least_score() {
        let thresholds = read(&["car 0.5", "traffic light 0.75", "plate 0.125"]).expect("they fit");
        assert_eq!(thresholds, ClassThresholds(vec![0.5, 0.75, 0.125, 0.125]));
        assert_eq!(
            read(&[]).expect("none"),
            ClassThresholds(vec![0.25, 0.25, 0.25, 0.25])
        );
        assert!(thresholds.is_candidate(0, 0.49) && !thresholds.is_candidate(0, 0.5));
        assert!((thresholds.least() - 0.125).abs() < f32::EPSILON);
        assert!(!thresholds.is_candidate(9, 0.0), "no such class");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &[&str], said: &str| {
            let error = read(text).expect_err("refused");
            assert!(error.contains(said), "{error}");
        };
        check(&["car"], "\"car\" is no class with its score");
        check(&["car 1.5"], "from 0 to 1");
        check(&["car NaN"], "from 0 to 1");
        check(&["0.5"], "is no class");
        check(&["lorry 0.5"], "no class \"lorry\"; it has car, traffic light");
        check(&["car 0.5", "car 0.6"], "\"car\" has two");
    }
}
