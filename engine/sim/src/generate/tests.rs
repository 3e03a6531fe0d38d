use proptest::prelude::*;
use weir_policy::generate::InstanceSpec;
use weir_policy::route::{JustEnough, Moves, Prefix, RouteRule, RouterSpec};
use weir_types::{Span, StepCurve, StepProfile, Timestamp};

use super::*;

/// An instance that takes `step_ms` per token.
fn instance(step_ms: u64, blocks: u32) -> InstanceSpec {
    let points = [
        (1, Span::from_millis(step_ms)),
        (64, Span::from_millis(3 * step_ms)),
    ];
    let curve = StepCurve::from_points(&points).unwrap();
    InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens: 64,
        max_sequences: 16,
        max_sequence_tokens: 400,
        blocks,
        block_tokens: 16,
        reserve_blocks: 1,
        prompt_gives_token: true,
        prefix_tokens: 0,
    }
}

fn cluster(rule: RouteRule, link: MoveLink) -> GenerateCluster {
    GenerateCluster {
        instances: vec![instance(8, 30), instance(4, 60), instance(2, 90)],
        router: RouterSpec {
            check_tokens: 5,
            ..RouterSpec::new(rule)
        },
        link,
        lengths: LengthRule::History,
        prior_length: 40,
        seed: 3,
    }
}

fn request(at_ms: u64, prompt: u32, length: u32, objective_ms: u64) -> GenerateRequest {
    GenerateRequest {
        at: Timestamp::from_micros(1_000 * at_ms),
        prompt,
        length,
        objective: Span::from_millis(objective_ms),
        prefix: None,
        predicted: None,
    }
}

#[test]
fn a_sequence_alone_takes_its_steps() {
    let result = simulate_cluster(
        &cluster(RouteRule::Earliest, MoveLink::TOKEN_IDS),
        &[request(5, 64, 10, 1_000)],
    );
    let outcome = result.unwrap().requests[0];
    // The fastest: a prompt of 64 tokens in 6 ms gives the first, nine more take 2 ms each.
    assert_eq!(outcome.first, Some(Span::from_millis(6)));
    assert_eq!(outcome.last, Some(Span::from_millis(24)));
}

#[test]
fn second_prompt_with_the_same_beginning_has_its_first_token_earlier() {
    let mut cluster = cluster(RouteRule::Earliest, MoveLink::TOKEN_IDS);
    let requests = [5, 500].map(|at_ms| GenerateRequest {
        prefix: Some(Prefix { id: 1, tokens: 48 }),
        ..request(at_ms, 64, 10, 1_000)
    });
    let first_tokens = |cluster: &GenerateCluster| {
        let result = simulate_cluster(cluster, &requests).unwrap();
        let reused: u64 = result.instances.iter().map(|stats| stats.reused).sum();
        (
            [0, 1].map(|number: usize| result.requests[number].first.unwrap()),
            reused,
        )
    };
    let (without, reused) = first_tokens(&cluster);
    assert_eq!((without[0], reused), (without[1], 0));
    for instance in &mut cluster.instances {
        instance.prefix_tokens = 48;
    }
    let (with, reused) = first_tokens(&cluster);
    assert!(with[0] == without[0] && with[1] < with[0], "{with:?}");
    assert_eq!(reused, 48);
}

#[test]
fn length_predicted_again_moves_a_sequence_that_would_be_late() {
    let rule = RouteRule::JustEnough(JustEnough {
        moves: Moves::Better,
        ..JustEnough::default()
    });
    let cluster = cluster(rule, MoveLink::TOKEN_IDS);
    // 100 tokens are in time on each instance; 200 take the slowest 1.6 s.
    let requests = [request(0, 10, 200, 1_200)];
    let moves = |again: Option<u32>| {
        let predict = |_: usize, generated: u32| match generated {
            0..10 => Some(100),
            _ => again.map(|total| total.saturating_sub(generated)),
        };
        let result = simulate_predicted(&cluster, &requests, &predict).unwrap();
        (result.requests[0].moves > 0, result.in_time(&requests))
    };
    assert_eq!(moves(Some(200)), (true, 1));
    // The mean of earlier sequences, of which there are none, is 40 tokens.
    assert_eq!(moves(None), (false, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the rule, every request ends once, with all of its tokens or dropped, and the same comes out again.
    #[test]
    fn every_request_ends(
        asked in prop::collection::vec((0_u64..40, 1_u32..200, 1_u32..120, 50_u64..2_000), 1..60),
        rule in 0..RouteRule::all().len(),
        by in 0_usize..3,
    ) {
        let by = [MoveBy::TokenIds, MoveBy::Cache, MoveBy::Cheaper][by];
        let link = MoveLink { by, ..MoveLink::TOKEN_IDS };
        let cluster = cluster(RouteRule::all()[rule], link);
        let mut at = 0;
        let requests: Vec<GenerateRequest> = asked
            .into_iter()
            .map(|(gap, prompt, length, objective)| {
                at += gap;
                request(at, prompt, length, objective)
            })
            .collect();
        let result = simulate_cluster(&cluster, &requests).unwrap();
        for (outcome, request) in result.requests.iter().zip(&requests) {
            match outcome.dropped {
                None => {
                    prop_assert_eq!(outcome.generated, request.length);
                    prop_assert!(outcome.first.unwrap() <= outcome.last.unwrap());
                }
                Some(_) => prop_assert!(outcome.last.is_none()),
            }
        }
        let sums = result.instances.iter().fold([0; 3], |sums, stats| {
            [sums[0] + stats.moved_in, sums[1] + stats.moved_out, sums[2] + stats.finished]
        });
        let finished = result.requests.iter().filter(|outcome| outcome.last.is_some()).count();
        // What moves before its first token comes as if it were new.
        prop_assert!(sums[0] <= sums[1] && sums[2] as usize == finished, "{sums:?}, {finished}");
        prop_assert_eq!(simulate_cluster(&cluster, &requests).unwrap(), result);
    }
}
