//! `generate` of a module in a world's file: instances with their step profile, and the tokens of their
//! requests.

use weir_config::{Diagnostics, Entry, Fields, Spanned};
use weir_graph::LengthPredictor;
use weir_policy::generate::{InstanceSpec, LengthSource, Prefix};
use weir_policy::route::{self, MoveCost, RouteRule, RouterSpec};
use weir_policy::{Answer, GenerateSpec};
use weir_types::{Profile, Span, StepCurve, StepProfile};

use super::values::number;
use crate::spec::{Link, Tokens, WorldGenerate};

/// Upper limit of every number of tokens.
const MAX_TOKENS: u32 = 1 << 20;
/// Tokens that a block of a cache holds.
const BLOCK_TOKENS: u32 = 16;
/// Tokens of the prompts of an emulated model.
const EMULATED_PROMPT: u32 = 32;
/// Tokens that all these prompts share, in whole blocks and without the last token.
const EMULATED_PREFIX: u32 = 16;
/// Thousand bytes of a token's part of the cache: of a model of 8 B parameters with eight heads of keys and values in 16 bits.
const CACHE_KB: f64 = 131.072;
/// Standard deviation of the logarithm of lengths.
const SPREAD: f64 = 0.5;

const KEYS: &[&str] = &[
    "prompt",
    "prompt_spread",
    "output",
    "output_spread",
    "max_tokens",
    "max_sequences",
    "max_step_tokens",
    "cache_tokens",
    "shared",
    "answer",
    "moves",
    "cache_kb",
];

/// Generator of a module without its instances, whose number is that of its workers.
#[derive(Debug, Clone)]
pub(super) struct RawGenerate {
    generate: WorldGenerate,
    /// The link that sequences move over.
    pub(super) moves: Option<Spanned<String>>,
    /// Bytes of a token's part of the cache.
    cache_bytes: f64,
    /// Device time that a request needs on a fully loaded instance.
    pub(super) request: Profile,
}

impl RawGenerate {
    /// Generator with this many instances, and the link over which sequences migrate.
    pub(super) fn with_instances(&self, count: u32, link: Option<&Link>) -> WorldGenerate {
        let mut generate = self.generate.clone();
        generate.spec.router.transfer = link.map(|link| MoveCost {
            link: route::Link {
                latency: link.latency,
                bandwidth_bps: link.bandwidth_bps,
            },
            cache_bytes: self.cache_bytes,
        });
        let one = generate.spec.instances.first().cloned();
        generate.spec.instances = one.into_iter().cycle().take(count as usize).collect();
        generate
    }
}

/// Reads `generate`; `None` if a problem was reported.
pub(super) fn read(
    entry: &Entry,
    steps: &[(u32, Span)],
    diagnostics: &mut Diagnostics,
) -> Option<RawGenerate> {
    let mut fields = Fields::open("`generate`".to_owned(), entry, diagnostics)?;
    fields.expect(KEYS, false, diagnostics);
    let curve = match StepCurve::from_points(steps) {
        Ok(curve) => curve,
        Err(error) => {
            diagnostics.add(entry.at, format!("its `profile` is none of steps: {error}"), None);
            return None;
        }
    };
    let most = f64::from(MAX_TOKENS);
    let mean = |key: &str, diagnostics: &mut Diagnostics| {
        if fields.entry(key).is_none() {
            let hint = Some("generate = { prompt = 100, output = 300 }: tokens in the mean".to_owned());
            diagnostics.add_if_parsed(fields.at, format!("`generate` has no `{key}`"), hint);
        }
        number(&fields, key, 1.0, most, diagnostics)
    };
    let (prompt, output) = (mean("prompt", diagnostics), mean("output", diagnostics));
    let spread = |key: &str, diagnostics: &mut Diagnostics| {
        number(&fields, key, 0.0, 3.0, diagnostics).unwrap_or(SPREAD)
    };
    let (prompt_spread, output_spread) = (
        spread("prompt_spread", diagnostics),
        spread("output_spread", diagnostics),
    );
    let (prompt, output) = (prompt?, output?);
    let count = |key: &str, default: u32, diagnostics: &mut Diagnostics| {
        fields
            .count(key, MAX_TOKENS, diagnostics)
            .into_value()
            .unwrap_or(default)
    };
    let answers = [("whole", Answer::Whole), ("first-token", Answer::FirstToken)];
    let answer = fields.word("answer", &answers, diagnostics).into_value();
    let moves = fields.text("moves", diagnostics).given().cloned();
    let cache_kb = number(&fields, "cache_kb", 0.0, 1e6, diagnostics);
    if let (Some(entry), None) = (fields.entry("cache_kb"), &moves) {
        let hint = Some("moves = \"NAME\": the link that sequences move over".to_owned());
        diagnostics.add(entry.at, "`generate` has `cache_kb` and no `moves`", hint);
    }
    let max_tokens = count("max_tokens", (4.0 * output).min(most) as u32, diagnostics);
    let max_prompt = (4.0 * prompt).min(most) as u32;
    let max_sequences = count("max_sequences", 256, diagnostics);
    let max_step_tokens = count("max_step_tokens", 512.min(curve.known_tokens()), diagnostics);
    let max_sequence_tokens = max_prompt.saturating_add(max_tokens);
    let cache_tokens = count(
        "cache_tokens",
        max_sequences.saturating_mul(max_sequence_tokens),
        diagnostics,
    );
    let shared = count("shared", 0, diagnostics);
    let bounds = [max_step_tokens, max_sequences, max_sequence_tokens, cache_tokens];
    let instance = InstanceSpec {
        prefix_tokens: shared,
        ..instance(curve, bounds)
    };
    if let Err(error) = instance.check() {
        diagnostics.add(entry.at, format!("`generate`: {error}"), None);
        return None;
    }
    let request = Profile::new(vec![(1, full_request(&instance, prompt, output))])?;
    Some(RawGenerate {
        request,
        moves,
        cache_bytes: cache_kb.unwrap_or(CACHE_KB) * 1e3,
        generate: WorldGenerate {
            spec: GenerateSpec {
                instances: vec![instance],
                router: RouterSpec::new(RouteRule::Earliest),
                max_tokens,
                answer: answer.unwrap_or_default(),
                length: LengthSource::default(),
            },
            prompt: Tokens::LogNormal {
                mean: prompt,
                spread: prompt_spread,
                max: max_prompt,
            },
            prefix: (shared > 0).then_some(Prefix {
                id: 0,
                tokens: shared,
            }),
            output: Tokens::LogNormal {
                mean: output,
                spread: output_spread,
                max: max_tokens,
            },
            length_error: None,
            capacity: None,
        },
    })
}

/// Instance whose steps take the same time for prompt tokens as for generated ones.
fn instance(
    curve: StepCurve,
    [max_step_tokens, max_sequences, max_sequence_tokens, cache_tokens]: [u32; 4],
) -> InstanceSpec {
    InstanceSpec {
        steps: StepProfile {
            decode: curve.clone(),
            prompt: curve,
        },
        max_step_tokens,
        max_sequences,
        max_sequence_tokens,
        blocks: cache_tokens.div_ceil(BLOCK_TOKENS),
        block_tokens: BLOCK_TOKENS,
        reserve_blocks: 0,
        prompt_gives_token: true,
        prefix_tokens: 0,
    }
}

/// Generator of a model of a graph, as the live engine emulates it: prompts of one length, and outputs whose
/// length is uniformly distributed. `declared` are step times by instance.
pub(super) fn emulated_generator(
    model: &weir_graph::ModelNode,
    module: &weir_graph::ModuleNode,
    declared: &[&[(u32, Span)]],
) -> Result<WorldGenerate, String> {
    let whole = |key: &str, default: u32| model.settings.number(key, f64::from(default)) as u32;
    let max_sequence_tokens = whole("max_sequence_tokens", 512);
    let max_sequences = whole("max_sequences", 32);
    let cache_tokens = whole("cache_tokens", max_sequences.saturating_mul(max_sequence_tokens));
    let max_tokens = module.settings.number("max_tokens", 64.0) as u32;
    let prefix_tokens = whole("prefix_tokens", 0);
    let instance_of = |steps: &&[(u32, Span)]| {
        let bad = |reason: String| format!("model \"{}\": {reason}", model.name);
        let curve = StepCurve::from_points(steps).map_err(|error| bad(error.to_string()))?;
        let known = curve.known_tokens();
        let max_step_tokens = whole("max_step_tokens", 256.min(known));
        let bounds = [max_step_tokens, max_sequences, max_sequence_tokens, cache_tokens];
        let instance = InstanceSpec {
            prefix_tokens,
            ..instance(curve, bounds)
        };
        instance.check().map_err(|error| bad(error.to_string()))?;
        Ok(instance)
    };
    let bound = max_sequence_tokens.saturating_sub(EMULATED_PROMPT).max(1);
    let instances: Vec<InstanceSpec> = declared.iter().map(instance_of).collect::<Result<_, String>>()?;
    let output = f64::from(1 + max_tokens.min(bound)) / 2.0;
    let rates = instances
        .iter()
        .map(|instance| most_sequences(instance, f64::from(EMULATED_PROMPT), output));
    Ok(WorldGenerate {
        capacity: Some(rates.sum()),
        spec: GenerateSpec {
            instances,
            router: RouterSpec::new(RouteRule::Earliest),
            max_tokens,
            answer: Answer::Whole,
            length: LengthSource::default(),
        },
        prompt: Tokens::Fixed(EMULATED_PROMPT),
        prefix: (prefix_tokens > 0).then_some(Prefix {
            id: 0,
            tokens: EMULATED_PREFIX,
        }),
        output: Tokens::Even {
            max: max_tokens.min(bound),
        },
        length_error: match model.predictor {
            Some(LengthPredictor::Emulated { error }) => Some(error),
            _ => None,
        },
    })
}

/// Sequences per second that an instance sustains. Each step runs as many sequences as fit, one token each,
/// together with the prompt tokens of the sequences that replace the finished ones.
pub(super) fn most_sequences(instance: &InstanceSpec, prompt: f64, output: f64) -> f64 {
    let rate = |sequences: u32| {
        let tokens = f64::from(sequences) * (1.0 + prompt / output);
        let tokens = (tokens.round() as u32).clamp(1, instance.max_step_tokens);
        // If a step has no room for all of them, fewer sequences run.
        let running = f64::from(tokens) / (1.0 + prompt / output);
        running / output / instance.steps.prompt.duration(tokens).as_secs_f64().max(1e-9)
    };
    (1..=instance.max_sequences).map(rate).fold(0.0, f64::max)
}

/// Device time that one request needs on an instance with full steps: its tokens times the time per token at
/// the best step size.
pub(super) fn full_request(instance: &InstanceSpec, prompt: f64, output: f64) -> Span {
    let most = instance.max_sequences.min(instance.max_step_tokens);
    let token_s = |tokens: u32| instance.steps.decode.duration(tokens).as_secs_f64() / f64::from(tokens);
    // Prompts fill the steps up in which others generate.
    let full = instance.max_step_tokens;
    let least = token_s(full).min(token_s(most));
    Span::from_secs_f64(least * (prompt + output))
}
