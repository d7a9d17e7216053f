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
    /// All of them.
    pub const ALL: [Role; 9] = [
        Role::Api,
        Role::Transfers,
        Role::Position,
        Role::Expiry,
        Role::Callbacks,
        Role::Tokens,
        Role::Order,
        Role::Pay,
        Role::Stock,
    ];

    /// The name in `--roles`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Api => "api",
            Role::Transfers => "transfers",
            Role::Position => "position",
            Role::Expiry => "expiry",
            Role::Callbacks => "callbacks",
            Role::Tokens => "tokens",
            Role::Order => "order",
            Role::Pay => "pay",
            Role::Stock => "stock",
        }
    }
}

/// What one node does: at least one role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles(BTreeSet<Role>);

impl Default for Roles {
    fn default() -> Roles {
        Roles(Role::ALL.into())
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
        let all = || Role::ALL.map(Role::name).join(", ");
        let read = |name: &str| {
            Role::ALL
                .into_iter()
                .find(|role| role.name() == name)
                .ok_or_else(|| format!("'{name}' is not a role; the roles are {}", all()))
        };
        text.split(',').map(|name| read(name.trim())).collect::<Result<BTreeSet<Role>, String>>().map(Roles)
    }
}

impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|role| role.name()).collect();
        f.write_str(&names.join(","))
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
