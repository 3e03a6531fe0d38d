//! A trace with tokens: what its requests ask of the module that generates.

use std::sync::Arc;

use weir_types::Profile;

use super::generate::{full_request, most_sequences};
use crate::spec::{Tokens, WorldGenerate, WorldPool, WorldSpec};
use crate::traces::{TokenRequest, TokenTrace};

/// The module that generates, and its place.
fn generating(spec: &mut WorldSpec) -> Result<(usize, &mut WorldGenerate), String> {
    if spec.decoding.is_some() {
        return Err("it has the tokens of requests, and the world decodes frames".to_owned());
    }
    let names: Vec<&str> = (spec.modules.iter())
        .filter(|node| matches!(node.pool, WorldPool::Generating(_)))
        .map(|node| node.name.as_str())
        .collect();
    if names.len() != 1 {
        let found = match names.len() {
            0 => "none".to_owned(),
            count => format!("{count} ({})", names.join(", ")),
        };
        return Err(format!(
            "it has the tokens of one module that generates, and the world has {found}"
        ));
    }
    let nodes = spec.modules.iter_mut().enumerate();
    let mut pools = nodes.filter_map(|(index, node)| match &mut node.pool {
        WorldPool::Generating(generate) => Some((index, generate.as_mut())),
        _ => None,
    });
    pools.next().ok_or_else(|| "no module generates".to_owned())
}

/// Bases the capacity of the generating module on the mean tokens of the trace.
///
/// # Errors
/// The trace is not for this world.
pub(super) fn set_means(spec: &mut WorldSpec, trace: &TokenTrace) -> Result<(), String> {
    let [prompt, output] = trace.mean_tokens();
    let (index, generate) = generating(spec)?;
    let instances = &generate.spec.instances;
    if generate.capacity.is_some() {
        let rates = instances
            .iter()
            .map(|instance| most_sequences(instance, prompt, output));
        generate.capacity = Some(rates.sum());
    } else if let Some(profile) = (instances.first())
        .and_then(|instance| Profile::new(vec![(1, full_request(instance, prompt, output))]))
    {
        spec.modules[index].profile = profile;
    }
    Ok(())
}

/// The module generates what the requests of the trace ask for.
///
/// # Errors
/// The trace is not for this world, or asks for more than its model generates.
pub(super) fn set_tokens(spec: &mut WorldSpec, trace: &TokenTrace) -> Result<(), String> {
    let most = |of: fn(&TokenRequest) -> u32| trace.requests().iter().map(of).max().unwrap_or(1);
    let listed = |of: fn(&TokenRequest) -> u32| -> Arc<[u32]> { trace.requests().iter().map(of).collect() };
    let (index, generate) = generating(spec)?;
    let (longest, max_tokens) = (most(|request| request.output), generate.spec.max_tokens);
    if longest > max_tokens {
        let name = &spec.modules[index].name;
        return Err(format!(
            "a request generates {longest} tokens, and module \"{name}\" at most {max_tokens}: give it a larger `max_tokens`"
        ));
    }
    generate.prompt = Tokens::Listed(listed(|request| request.prompt));
    generate.output = Tokens::Listed(listed(|request| request.output));
    if generate.capacity.is_none() {
        // A world's file states the mean length of prompts, but no upper limit.
        let longest = most(|request| request.prompt).saturating_add(max_tokens);
        for instance in &mut generate.spec.instances {
            instance.max_sequence_tokens = instance.max_sequence_tokens.max(longest);
        }
    }
    Ok(())
}
