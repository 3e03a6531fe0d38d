//! Sources with the key `like`: their frames enter wherever those of another source do.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::{Diagnostics, spelling};

use crate::graph::Vertex;
use crate::raw::RawGraph;

/// Stands for all sources in `like`.
const ANY: &str = "*";

/// A source that shares inputs.
pub(super) struct Follower {
    source: usize,
    /// The source or template that it is like; `None`: any.
    like: Option<usize>,
}

/// The sources with `like`, each behind the one that it is like.
pub(super) fn followers(raw: &RawGraph, diagnostics: &mut Diagnostics) -> Vec<Follower> {
    let sources = raw.sources.iter().map(|source| source.name.value.as_str());
    let names = sources.chain(raw.templates.iter().map(|template| template.value.as_str()));
    let indexes: BTreeMap<&str, usize> = names.zip(0..).collect();
    let like_of = |source: usize| raw.sources.get(source)?.like.as_ref();
    let next = |source: usize| like_of(source).and_then(|like| indexes.get(like.value.as_str()).copied());
    let mut followers = Vec::new();
    for source in 0..raw.sources.len() {
        let Some(like) = like_of(source) else { continue };
        if like.value == ANY {
            followers.push((0, Follower { source, like: None }));
            continue;
        }
        let Some(target) = next(source) else {
            let message = format!("there is no source \"{}\" to be like", like.value);
            let hint = spelling::hint(&like.value, "sources", indexes.keys().copied());
            diagnostics.add_if_parsed(like.at, message, hint);
            continue;
        };
        let chain = std::iter::successors(Some(target), |source| next(*source));
        let depth = chain.take(indexes.len() + 1).count();
        if depth > indexes.len() {
            let message = format!(
                "\"{}\" is like itself, by way of others",
                raw.sources[source].name.value
            );
            let hint = "name a source that stands in `inputs`, or a star".to_owned();
            diagnostics.add(like.at, message, Some(hint));
            continue;
        }
        let like = Some(target);
        followers.push((depth, Follower { source, like }));
    }
    followers.sort_by_key(|(depth, follower)| (*depth, follower.source));
    followers.into_iter().map(|(_, follower)| follower).collect()
}

/// Adds to the inputs of a module or a sink the sources that are like one of them.
pub(super) fn add(inputs: &mut Vec<Vertex>, followers: &[Follower]) {
    let sources = inputs.iter().filter_map(|input| match input {
        Vertex::Source(source) => Some(*source),
        Vertex::Module(_) => None,
    });
    let mut entered: BTreeSet<usize> = sources.collect();
    if entered.is_empty() {
        return;
    }
    for follower in followers {
        let is_like = follower.like.is_none_or(|like| entered.contains(&like));
        if is_like && entered.insert(follower.source) {
            inputs.push(Vertex::Source(follower.source));
        }
    }
}
