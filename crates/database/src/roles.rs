//! What a node does. All of it, unless one part is to be scaled alone.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Taking requests over HTTP.
    Api,
    /// Handler 1: duplicates, rules, parties.
    Transfers,
    /// Handler 2: positions and limits.
    Position,
    /// Ending holds that ran out.
    Expiry,
    /// Telling participants.
    Callbacks,
    /// Telling Kafka what happened to tokens, hearing from outside ledgers, removing what is over.
    Tokens,
    /// Starting and deciding checkouts.
    Order,
    /// The payment side of checkouts.
    Pay,
    /// The stock side of checkouts.
    Stock,
}

impl Role {
    /// All of them, with their names in `--roles`.
    pub const ALL: [(&'static str, Role); 9] = [
        ("api", Role::Api),
        ("transfers", Role::Transfers),
        ("position", Role::Position),
        ("expiry", Role::Expiry),
        ("callbacks", Role::Callbacks),
        ("tokens", Role::Tokens),
        ("order", Role::Order),
        ("pay", Role::Pay),
        ("stock", Role::Stock),
    ];
}

/// What one node does: at least one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(BTreeSet<Role>);

impl Default for Roles {
    fn default() -> Roles {
        Roles(Role::ALL.into_iter().map(|(_, role)| role).collect())
    }
}

impl Roles {
    /// Whether it does this.
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        self.0.contains(&role)
    }
}

impl FromStr for Roles {
    type Err = String;

    /// Reads names behind commas.
    fn from_str(text: &str) -> Result<Roles, String> {
        let all = || Role::ALL.map(|(name, _)| name).join(", ");
        let read = |wanted: &str| {
            let found = Role::ALL.into_iter().find(|(name, _)| *name == wanted);
            found.ok_or_else(|| format!("'{wanted}' is not a role; the roles are {}", all()))
        };
        text.split(',')
            .map(|name| read(name.trim()).map(|(_, role)| role))
            .collect::<Result<_, _>>()
            .map(Roles)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |(name, role): (&'static str, Role)| self.has(role).then_some(name);
        f.write_str(&Role::ALL.into_iter().filter_map(has).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_and_shown() {
        let some: Roles = "position, expiry".parse().unwrap();
        assert!(some.has(Role::Position) && some.has(Role::Expiry) && !some.has(Role::Api));
        assert_eq!(some.to_string(), "position,expiry");
        assert_eq!(Roles::default().to_string().parse::<Roles>().unwrap(), Roles::default());
        assert!("positions".parse::<Roles>().unwrap_err().contains("callbacks"));
        assert!("".parse::<Roles>().is_err());
    }
}
