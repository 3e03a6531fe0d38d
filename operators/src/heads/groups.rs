//! Classes suppressed together, because one object may be detected as several of them (a car as a truck).
//!
//! Groups are configured, not inferred from overlaps: a rider and a motorcycle that approach the camera overlap as much
//! as a car and the truck that it is confused with, and are two objects.

use weir_flow::Settings;

use super::labels::Labels;

/// The group of all classes.
const ALL: &str = "*";

/// Largest overlap (IoU) of two objects of different classes in a group. On the street clips no two vehicles overlapped
/// as far, and the class of the better score was the right one for every class's average precision; at the 0.45 within
/// a class, some vehicles behind others were lost.
const OVERLAP: f64 = 0.8;

/// Groups of classes; none by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Groups {
    /// Group by class; empty without groups.
    by_class: Vec<Option<usize>>,
    overlap: f32,
}

impl Groups {
    /// Reads the keys `nms_groups`, each text a comma-separated list of classes, and `nms_group_iou`.
    ///
    /// # Errors
    /// An unknown class, or a class in two groups.
    pub(super) fn read(settings: &Settings, labels: &Labels) -> Result<Self, String> {
        let written = settings.texts("nms_groups").unwrap_or_default();
        Ok(Self {
            by_class: group_numbers(written, labels)?,
            overlap: settings.number("nms_group_iou", OVERLAP) as f32,
        })
    }

    /// The largest overlap at which objects of two different classes both stay; `None` if they are not in one group.
    pub(super) fn overlap(&self, one: usize, other: usize) -> Option<f32> {
        let group = |class: usize| self.by_class.get(class).copied().flatten();
        let together = group(one).is_some() && group(one) == group(other);
        together.then_some(self.overlap)
    }
}

/// The group number of each class.
fn group_numbers(written: &[String], labels: &Labels) -> Result<Vec<Option<usize>>, String> {
    if written.iter().any(|group| group.trim() == ALL) {
        return Ok(vec![Some(0); labels.names().len()]);
    }
    let mut groups = vec![None; labels.names().len()];
    for (number, group) in written.iter().enumerate() {
        for name in group.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            // Classes may share a name, as types of plates do.
            let named = labels.names().iter().enumerate();
            let classes: Vec<usize> = named
                .filter(|(_, label)| ***label == *name)
                .map(|(class, _)| class)
                .collect();
            if classes.is_empty() {
                return Err(format!(
                    "nms_groups: the model has no class \"{name}\"; it has {}",
                    labels.listed()
                ));
            }
            for class in classes {
                if groups[class]
                    .replace(number)
                    .is_some_and(|before| before != number)
                {
                    return Err(format!("nms_groups: \"{name}\" is in two groups"));
                }
            }
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::labels::COCO;

    fn check(written: &[&str], expected: Result<&[Option<usize>], &str>) {
        let labels = Labels::read(&Settings::default(), &COCO[..4], 4).expect("labels");
        let written: Vec<String> = written.iter().map(|group| (*group).to_owned()).collect();
        match (group_numbers(&written, &labels), expected) {
            (Ok(groups), Ok(expected)) => assert_eq!(groups, expected, "{written:?}"),
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (groups, expected) => panic!("{groups:?} is not {expected:?}"),
        }
    }

    #[test]
    fn classes_are_in_no_group_unless_one_is_named() {
        check(&[], Ok(&[None; 4]));
        check(&["bicycle, motorcycle"], Ok(&[None, Some(0), None, Some(0)]));
        check(
            &["bicycle,motorcycle", " car , person "],
            Ok(&[Some(1), Some(0), Some(1), Some(0)]),
        );
        check(&["*"], Ok(&[Some(0); 4]));
        check(
            &["car, lorry"],
            Err("no class \"lorry\"; it has person, bicycle, car, motorcycle"),
        );
        check(&["car, person", "car, bicycle"], Err("\"car\" is in two groups"));
    }
}
