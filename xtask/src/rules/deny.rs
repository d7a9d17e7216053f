//! The dependency graph beside `deny.toml`: licences, sources, versions. The graph is what `cargo tree` prints, since that leaves out what
//! no feature turns on. Only the keys that `deny.toml` uses are understood; another one is an error and not passed over.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use spdx::{Expression, ParseMode};

use super::rules;
use crate::cargo_output;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    graph: Graph,
    licenses: Licences,
    sources: Sources,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    targets: Vec<String>,
    all_features: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Licences {
    allow: BTreeSet<String>,
}

/// Crates come from the crate registry or from this repository; nothing else is understood here.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    unknown_registry: Deny,
    unknown_git: Deny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    multiple_versions: Deny,
    wildcards: Deny,
    allow_wildcard_paths: bool,
    skip: Vec<Exception>,
    deny: Vec<Exception>,
}

#[derive(Debug, Deserialize, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum Deny {
    Deny,
}

/// A crate, with a version or without, and why it is an exception.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

/// One line of `cargo tree`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    /// Where it comes from, if that is not the crate registry.
    source: Option<String>,
    licence: String,
}

/// Every breach, one sentence each.
pub(super) fn breaches() -> Result<Vec<String>, String> {
    let rules: Rules = rules("deny.toml")?;
    let packages = packages(&rules.graph)?;
    Ok(judge(&rules, &packages))
}

fn packages(graph: &Graph) -> Result<BTreeSet<Package>, String> {
    let mut packages = BTreeSet::new();
    for target in &graph.targets {
        let mut arguments = vec!["tree", "--workspace", "--locked", "--prefix", "none", "--no-dedupe"];
        arguments.extend(["--edges", "normal,build,dev", "--target", target, "--format", "{p}\t{l}"]);
        if graph.all_features {
            arguments.push("--all-features");
        }
        let printed = cargo_output(&arguments)?;
        packages.extend(printed.lines().filter_map(package));
    }
    if packages.is_empty() {
        return Err("xtask: cargo tree names no crate".to_owned());
    }
    Ok(packages)
}

/// `name v1.2.3 (source)`, a tab, the licence.
fn package(line: &str) -> Option<Package> {
    let (package, licence) = line.split_once('\t')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let mut notes = words.map(|word| word.trim_matches(['(', ')']));
    let source = notes.rfind(|note| !matches!(*note, "proc-macro" | "*"));
    Some(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        source: source.map(str::to_owned),
        licence: licence.to_owned(),
    })
}

fn judge(rules: &Rules, packages: &BTreeSet<Package>) -> Vec<String> {
    // All that can be said of these is "deny", and a version that begins with "*" is refused by the registry itself.
    let (Deny::Deny, Deny::Deny) = (rules.sources.unknown_registry, rules.sources.unknown_git);
    let (Deny::Deny, Deny::Deny, true) =
        (rules.bans.multiple_versions, rules.bans.wildcards, rules.bans.allow_wildcard_paths)
    else {
        return vec!["deny.toml: allow-wildcard-paths = false is not understood".to_owned()];
    };
    let mut breaches = Vec::new();
    let mut versions: BTreeMap<&str, BTreeSet<&Package>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, source, licence } = package;
        if source.as_ref().is_some_and(|source| source.contains("://")) {
            breaches.push(format!("{name} {version} comes from outside the crate registry"));
        }
        if !is_allowed(licence, &rules.licenses.allow) {
            breaches.push(format!("{name} {version} has the licence \"{licence}\", which is not allowed"));
        }
        if let Some(banned) = rules.bans.deny.iter().find(|banned| banned.is(package)) {
            breaches.push(format!("{name} {version} is banned: {}", banned.reason));
        }
        versions.entry(name).or_default().insert(package);
    }
    for (name, packages) in &versions {
        let skipped = |package: &&Package| rules.bans.skip.iter().any(|skip| skip.is(package));
        let kept: Vec<_> = packages.iter().filter(|package| !skipped(package)).collect();
        if kept.len() > 1 {
            let versions: Vec<_> = kept.iter().map(|package| package.version.as_str()).collect();
            breaches.push(format!("{name} is built in several versions: {}", versions.join(", ")));
        }
    }
    for skip in &rules.bans.skip {
        let found = packages.iter().find(|package| skip.is(package));
        if found.is_none_or(|found| versions[found.name.as_str()].len() < 2) {
            breaches.push(format!("deny.toml skips {}, of which there is one version or none", skip.name));
        }
    }
    breaches
}

impl Exception {
    /// Whether it means that package. `name@1.2` means every version that begins so.
    fn is(&self, package: &Package) -> bool {
        let Some((name, version)) = self.name.split_once('@') else {
            return self.name == package.name;
        };
        let rest = package.version.strip_prefix(version);
        name == package.name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

/// Whether the licence can be kept with those that are allowed. Older manifests write `/` for OR.
fn is_allowed(licence: &str, allowed: &BTreeSet<String>) -> bool {
    let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
        return false;
    };
    expression.evaluate(|wanted| allowed.contains(&wanted.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_for_tests() -> Rules {
        Rules {
            graph: Graph { targets: Vec::new(), all_features: true },
            licenses: Licences { allow: ["MIT", "ISC"].map(str::to_owned).into() },
            sources: Sources { unknown_registry: Deny::Deny, unknown_git: Deny::Deny },
            bans: Bans {
                multiple_versions: Deny::Deny,
                wildcards: Deny::Deny,
                allow_wildcard_paths: true,
                skip: vec![Exception { name: "twice@1".to_owned(), reason: "old".to_owned() }],
                deny: vec![Exception { name: "banned".to_owned(), reason: "another is used".to_owned() }],
            },
        }
    }

    fn judged(tree: &[&str]) -> Vec<String> {
        judge(&rules_for_tests(), &tree.iter().filter_map(|line| package(line)).collect())
    }

    #[test]
    fn a_graph_that_keeps_the_rules_has_no_breach() {
        let tree =
            ["twice v1.0.1\tMIT", "twice v2.0.0\tMIT/GPL-3.0", "mine v0.1.0 (/some/where)\tISC OR GPL-2.0"];
        assert_eq!(judged(&tree), Vec::<String>::new());
    }

    #[test]
    fn each_breach_is_named() {
        let tree = [
            "twice v1.0.1\tMIT",
            "twice v2.0.0\tMIT",
            "thrice v1.0.0\tMIT",
            "thrice v3.0.0\tMIT",
            "banned v1.0.0\tMIT",
            "copyleft v1.0.0 (proc-macro)\tMIT AND GPL-3.0",
            "unsaid v1.0.0\t",
            "forked v1.0.0 (https://example.org/forked#0123abcd)\tMIT",
        ];
        let expected = [
            "banned 1.0.0 is banned: another is used",
            "copyleft 1.0.0 has the licence \"MIT AND GPL-3.0\", which is not allowed",
            "forked 1.0.0 comes from outside the crate registry",
            "unsaid 1.0.0 has the licence \"\", which is not allowed",
            "thrice is built in several versions: 1.0.0, 3.0.0",
        ];
        assert_eq!(judged(&tree), expected);
    }

    #[test]
    fn an_exception_that_nothing_needs_is_a_breach() {
        let breaches = judged(&["twice v1.0.1\tMIT"]);
        assert_eq!(breaches, ["deny.toml skips twice@1, of which there is one version or none"]);
    }
}
