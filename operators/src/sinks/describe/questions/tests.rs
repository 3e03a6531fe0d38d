use proptest::prelude::*;

use super::super::budget::{DayLimits, Prices};
use super::*;

fn at(seconds: u64) -> Now {
    Now {
        since_start: Duration::from_secs(seconds),
        utc_ms: seconds * 1_000,
    }
}

const LIMITS: Limits = Limits {
    queue: 4,
    per_minute: None,
    give_up_after: Duration::from_secs(600),
};

fn questions(limits: Limits, tokens: Option<u64>) -> Questions<u32> {
    let day = DayLimits { tokens, price: None };
    Questions::new(limits, Budget::new(day, Prices::default(), 10))
}

/// The next question; the test fails if there is none.
fn asked(questions: &mut Questions<u32>, now: Now) -> Question<u32> {
    match questions.next(now) {
        Next::Ask(question) => question,
        Next::Wait(wait) => panic!("waits {wait:?}: {questions:?}"),
    }
}

fn waits(questions: &mut Questions<u32>, now: Now) -> Duration {
    match questions.next(now) {
        Next::Wait(wait) => wait,
        Next::Ask(question) => panic!("asks {}", question.subject),
    }
}

fn answered() -> Reply {
    Reply::Answered(Usage::new(20, 5))
}

fn unreached() -> Reply {
    Reply::Unreached("nothing listens".to_owned())
}

#[test]
fn newest_question_is_asked_first_and_the_oldest_makes_room() {
    let mut all = questions(LIMITS, None);
    for number in 0..6 {
        all.on_question(number, at(0));
    }
    for expected in [5, 4, 3, 2] {
        let question = asked(&mut all, at(1));
        assert_eq!(question.subject, expected);
        all.on_reply(question, &answered(), at(2));
    }
    assert_eq!(waits(&mut all, at(2)), Duration::MAX);
    let counts = all.counts();
    assert_eq!((counts.answered, counts.crowded_out, all.queued()), (4, 2, 0));
}

#[test]
fn dead_server_is_tried_by_one_question_now_and_then() {
    let mut all = questions(LIMITS, None);
    for number in 0..4 {
        all.on_question(number, at(0));
    }
    for _ in 0..BREAKER_FAILURES {
        let question = asked(&mut all, at(1));
        all.on_reply(question, &unreached(), at(1));
    }
    assert_eq!(waits(&mut all, at(1)), Duration::from_secs(1));
    assert_eq!(all.outage(1_000).as_deref(), Some("nothing listens"));
    let probe = asked(&mut all, at(2));
    assert_eq!(waits(&mut all, at(2)), Duration::MAX, "one request alone");
    all.on_reply(probe, &unreached(), at(2));
    assert_eq!(waits(&mut all, at(2)), Duration::from_secs(2));
    let probe = asked(&mut all, at(4));
    all.on_reply(probe, &answered(), at(4));
    let (one, other) = (asked(&mut all, at(4)), asked(&mut all, at(4)));
    assert_eq!((one.subject, other.subject), (2, 1));
    assert_eq!(all.outage(4_000), None);
    assert_eq!((all.counts().pauses, all.counts().failed), (2, 0));
}

#[test]
fn pauses_double_within_their_bound() {
    let mut breaker = Breaker::default();
    let mut longest = Duration::ZERO;
    for second in 0..40 {
        let now = Duration::from_secs(second);
        breaker.on_failure(now);
        longest = longest.max(breaker.until.unwrap_or(now).saturating_sub(now));
    }
    assert_eq!(longest, MAX_PAUSE);
}

#[test]
fn question_that_the_server_fails_on_is_tried_three_times() {
    let mut all = questions(LIMITS, None);
    all.on_question(7, at(0));
    let mut now = 0;
    for attempt in 1..=MAX_TRIES {
        let question = asked(&mut all, at(now));
        all.on_reply(question, &Reply::Failed("503".to_owned()), at(now));
        assert_eq!(all.counts().failed, u64::from(attempt == MAX_TRIES));
        now += 5;
    }
    assert_eq!((all.counts().asked, all.queued()), (3, 0));
}

#[test]
fn rate_limit_of_the_server_pauses_all_questions_and_costs_no_try() {
    let mut all = questions(LIMITS, None);
    (0..2).for_each(|number| all.on_question(number, at(0)));
    let limited = Reply::Limited("429".to_owned(), Some(Duration::from_secs(30)));
    for round in 0..5 {
        let question = asked(&mut all, at(round * 30));
        all.on_reply(question, &limited, at(round * 30));
        assert_eq!(waits(&mut all, at(round * 30 + 1)), Duration::from_secs(29));
    }
    let forever = Reply::Limited("429".to_owned(), Some(Duration::MAX));
    let question = asked(&mut all, at(150));
    all.on_reply(question, &forever, at(150));
    assert_eq!(waits(&mut all, at(150)), MAX_LIMITED);
    assert_eq!((all.counts().limited, all.counts().failed), (6, 0));
}

#[test]
fn requests_of_a_minute_are_limited() {
    let limits = Limits {
        per_minute: Some(2),
        ..LIMITS
    };
    let mut all = questions(limits, None);
    (0..4).for_each(|number| all.on_question(number, at(0)));
    for second in [0, 20] {
        let question = asked(&mut all, at(second));
        all.on_reply(question, &answered(), at(second));
    }
    assert_eq!(waits(&mut all, at(25)), Duration::from_secs(35));
    asked(&mut all, at(60));
    assert_eq!(waits(&mut all, at(60)), Duration::from_secs(20));
}

#[test]
fn questions_beyond_the_budget_of_a_day_are_counted_and_not_asked() {
    let mut all = questions(LIMITS, Some(60));
    (0..4).for_each(|number| all.on_question(number, at(0)));
    for _ in 0..2 {
        let question = asked(&mut all, at(1));
        all.on_reply(question, &answered(), at(1));
    }
    // 50 tokens are used, and a request needs 30.
    assert_eq!(waits(&mut all, at(2)), Duration::MAX);
    assert_eq!((all.counts().over_budget, all.queued()), (2, 0));
    assert!(all.outage(3_000).is_some());
    let tomorrow = at(24 * 60 * 60);
    assert_eq!(all.outage(tomorrow.utc_ms), None);
    all.on_question(9, tomorrow);
    assert_eq!(asked(&mut all, tomorrow).subject, 9);
}

#[test]
fn old_questions_expire_and_the_end_gives_up_the_rest() {
    let mut all = questions(LIMITS, None);
    all.on_question(0, at(0));
    all.on_question(1, at(599));
    assert_eq!(asked(&mut all, at(600)).subject, 1);
    assert_eq!(all.counts().expired, 1);
    all.on_question(2, at(601));
    all.close(at(602), Duration::from_secs(4));
    assert!(!all.is_done() && !all.is_over(at(605)) && all.is_over(at(606)));
    all.give_up();
    all.on_question(3, at(607));
    assert!(all.is_done());
    assert_eq!(all.counts().expired, 4);
}

fn reply() -> impl Strategy<Value = Reply> {
    let reason = String::new;
    proptest::sample::select(vec![
        answered(),
        Reply::Wrong(Usage::new(9, 9), reason()),
        Reply::TimedOut(reason()),
        Reply::Limited(reason(), None),
        Reply::Limited(reason(), Some(Duration::from_secs(7))),
        Reply::Failed(reason()),
        Reply::Refused(reason()),
        Reply::Unreached(reason()),
    ])
}

proptest! {
    /// Whatever happens, each question ends once, and all bounds hold.
    #[test]
    fn every_question_is_accounted_for(
        steps in proptest::collection::vec((0_u8..4, 0_u64..40, reply()), 1..200),
        (per_minute, tokens) in (proptest::option::of(1_usize..5), proptest::option::of(1_u64..400)),
    ) {
        let limits = Limits { per_minute, ..LIMITS };
        let mut all = questions(limits, tokens);
        let (mut now, mut flying, mut begun) = (0, Vec::new(), Vec::new());
        for (step, seconds, reply) in steps {
            now += seconds;
            match step {
                0 => all.on_question(0, at(now)),
                1 | 2 => if let Next::Ask(question) = all.next(at(now)) {
                    begun.push(now);
                    flying.push(question);
                },
                _ => if let Some(question) = flying.pop() {
                    all.on_reply(question, &reply, at(now));
                },
            }
            let counts = all.counts();
            let ended = counts.answered + counts.wrong + counts.refused + counts.failed + counts.expired
                + counts.crowded_out + counts.over_budget;
            prop_assert_eq!(counts.questions, ended + all.queued() as u64);
            prop_assert!(all.queued() <= LIMITS.queue + flying.len());
            if let Some(max) = per_minute {
                let recent = begun.iter().filter(|begun| now - **begun < 60);
                prop_assert!(recent.count() <= max);
            }
        }
        all.close(at(now), Duration::ZERO);
        all.give_up();
        prop_assert!(all.is_done());
    }
}
