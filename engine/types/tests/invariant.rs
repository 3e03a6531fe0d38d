//! Reaction of a process to a violated invariant. There is only one test, since the mode belongs to the
//! process.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use weir_types::invariant;
use weir_types::invariant::{Kind, Mode, set_mode, take_example, violations};

fn halve(number: u32) -> u32 {
    invariant!(number.is_multiple_of(2), Kind::Items, "{number} is odd");
    number / 2
}

#[test]
fn a_process_counts_over_threads_and_keeps_the_first_of_a_kind() {
    set_mode(Mode::Count);
    let before = violations();
    let odd = [1, 3, 5];
    std::thread::scope(|scope| {
        for number in odd {
            scope.spawn(move || halve(number));
        }
    });
    let broken = violations().since(&before);
    assert_eq!(broken.iter().collect::<Vec<_>>(), [(Kind::Items, 3)]);
    let example = take_example(Kind::Items).unwrap();
    assert!(odd.iter().any(|number| example == format!("{number} is odd")));
    assert_eq!(take_example(Kind::Items), None, "one of a kind is kept");
    halve(7);
    assert_eq!(take_example(Kind::Items).as_deref(), Some("7 is odd"));

    set_mode(Mode::Panic);
    assert!(std::thread::spawn(|| halve(9)).join().is_err());
    assert_eq!(violations().since(&before).count(Kind::Items), 4);
}
