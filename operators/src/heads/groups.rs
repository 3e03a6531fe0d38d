//! Classes that are suppressed together: what one thing may be taken for (a car for a truck), so that it is given once.
//!
//! Groups are named, not found by how far boxes overlap: a rider and a motorcycle that come towards the camera overlap as
//! much as a car and the truck that it is taken for, and are two things.

use super::labels::Labels;

/// The group of all classes.
const ALL: &str = "*";

/// By class the number of its group, from groups that are written as names with commas between them. A class in none is
/// a group of its own.
///
/// # Errors
/// A name that is no class, or a class of two groups.
pub(super) fn of(written: &[String], labels: &Labels) -> Result<Vec<usize>, String> {
    let mut groups: Vec<usize> = (0..labels.count()).collect();
    if written.iter().any(|group| group.trim() == ALL) {
        groups.fill(0);
        return Ok(groups);
    }
    // Numbers of groups come after those of classes, so that no class is in one by accident.
    for (number, group) in (labels.count()..).zip(written) {
        for name in group.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            // Classes may share a name, as kinds of plates do.
            let mut named = false;
            for (class, label) in labels.names().iter().enumerate() {
                if **label != *name {
                    continue;
                }
                named = true;
                if groups[class] >= labels.count() && groups[class] != number {
                    return Err(format!("nms_groups: \"{name}\" is in two groups"));
                }
                groups[class] = number;
            }
            if !named {
                return Err(format!(
                    "nms_groups: the model has no class \"{name}\"; it has {}",
                    labels.listed()
                ));
            }
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use weir_flow::Settings;

    use super::*;
    use crate::heads::labels::COCO;

    fn check(written: &[&str], expected: Result<&[usize], &str>) {
        let labels = Labels::read(&Settings::default(), &COCO[..4], 4).expect("labels");
        let written: Vec<String> = written.iter().map(|group| (*group).to_owned()).collect();
        match (of(&written, &labels), expected) {
            (Ok(groups), Ok(expected)) => assert_eq!(groups, expected, "{written:?}"),
            (Err(reason), Err(part)) => assert!(reason.contains(part), "{reason}"),
            (groups, expected) => panic!("{groups:?} is not {expected:?}"),
        }
    }

    #[test]
    fn classes_are_their_own_group_unless_one_is_named() {
        check(&[], Ok(&[0, 1, 2, 3]));
        check(&["bicycle, motorcycle"], Ok(&[0, 4, 2, 4]));
        check(&["bicycle,motorcycle", " car , person "], Ok(&[5, 4, 5, 4]));
        check(&["*"], Ok(&[0, 0, 0, 0]));
        check(
            &["car, lorry"],
            Err("no class \"lorry\"; it has person, bicycle, car, motorcycle"),
        );
        check(&["car, person", "car, bicycle"], Err("\"car\" is in two groups"));
    }
}
