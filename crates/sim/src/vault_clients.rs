//! Those who hold tokens: a few wallets that issue, lock, spend and give back, right and wrong, and an outside ledger that
//! tells what happened there in any order. They choose from what they were told, as an index in memory would.

use std::collections::BTreeMap;

use holdfast_domain::command::{Command, Prepare};
use holdfast_domain::effects::Outcome;
use holdfast_domain::ids::{Currency, Millis};
use holdfast_domain::tokens::{
    Fingerprint, LEASE_MS_MAX, LockTokens, Name, Output, SpendRequest, SpendTokens, Token, TokenCommand,
    TokenId, TokenOutcome,
};
use holdfast_domain::transfers::TransferState;

use crate::clients::TokenMeans;
use crate::random::Random;

/// So few that they meet all the time.
pub const WALLETS: [&str; 3] = ["ann", "bob", "cid"];
/// In one currency for the most part, so that tokens can be mixed.
const CURRENCIES: [&str; 4] = ["USD", "USD", "USD", "XOF"];

/// Somebody who locked tokens, or tried to.
#[derive(Debug)]
struct Spender {
    lock: LockTokens,
    /// The fences it was told, the newest last.
    fences: Vec<u64>,
    /// The spend that it sent first.
    spend: Option<SpendTokens>,
}

/// What the holders of tokens believe.
#[derive(Debug, Default)]
pub struct VaultClients {
    tokens: BTreeMap<TokenId, Belief>,
    spenders: Vec<Spender>,
    /// Told by the outside ledger as consumed, and produced there later.
    late: Vec<Token>,
    /// Names under which transfers hold tokens.
    transfers: Vec<Name>,
    numbers: u32,
}

#[derive(Debug)]
struct Belief {
    token: Token,
    /// Until when somebody holds it; it is gone for good at the end of time.
    held_until: Millis,
}

const GONE: Millis = Millis::MAX;

impl VaultClients {
    /// The longest lease that anybody asks for.
    pub const LONGEST_LEASE: Millis = LEASE_MS_MAX;

    /// The commands of one submission.
    pub fn act(&mut self, now: Millis, random: &mut Random) -> Vec<Command> {
        let commands = match random.below(100) {
            0..12 => self.lock_and_spend(now, random),
            12..22 => self.contend(now, random),
            _ => (0..random.size(1, 4)).map(|_| self.one(now, random)).collect(),
        };
        commands.into_iter().map(|command| Command::Token(Box::new(command))).collect()
    }

    /// What an answer tells.
    pub fn learn(&mut self, command: &Command, outcome: &Outcome) {
        if let Command::Prepare(Prepare { funding: Some(funding), expiration, .. }) = command {
            self.transfers.push(funding.spender.clone());
            if outcome.state == Some(TransferState::Reserved) {
                self.held(&funding.ids, *expiration);
            }
        }
        let Command::Token(command) = command else { return };
        match (&**command, outcome.token.as_deref()) {
            (TokenCommand::Issue { tokens }, Some(TokenOutcome::Issued)) => self.believe(tokens),
            (TokenCommand::Update { consumed, produced }, Some(TokenOutcome::Updated { .. })) => {
                self.believe(produced);
                self.held(consumed, GONE);
            }
            (_, Some(TokenOutcome::Locked(row))) => {
                self.held(&row.tokens, row.expires_at);
                if let Some(spender) =
                    self.spenders.iter_mut().find(|spender| spender.lock.spender == row.spender)
                    && spender.fences.last() != Some(&row.fence)
                {
                    spender.fences.push(row.fence);
                }
            }
            (_, Some(TokenOutcome::Spent(row))) => {
                self.believe(&row.transaction.produced);
                self.held(&row.transaction.consumed, GONE);
            }
            _ => {}
        }
    }

    /// What is gone for good stays so.
    fn held(&mut self, ids: &[TokenId], until: Millis) {
        for id in ids {
            if let Some(belief) = self.tokens.get_mut(id).filter(|belief| belief.held_until != GONE) {
                belief.held_until = until;
            }
        }
    }

    /// A name in which a checkout holds tokens, that somebody would like to have.
    pub fn hear_of(&mut self, spender: Name) {
        if !self.transfers.contains(&spender) {
            self.transfers.push(spender);
        }
    }

    /// Free tokens of a wallet for a transfer; now and then too few, or of somebody else, or none at all.
    pub fn means(&self, now: Millis, random: &mut Random) -> Option<TokenMeans> {
        let mut free = self.free(now);
        let first = self.tokens.get(any_of(free.iter(), random)?)?.token.kind.clone();
        let letters = first.currency.as_bytes().try_into().ok()?;
        free.retain(|id| {
            let kind = &self.tokens[id].token.kind;
            (&kind.currency, &kind.wallet, &kind.notary) == (&first.currency, &first.wallet, &first.notary)
        });
        free.truncate(random.size(1, 3));
        let quantity = 1 + i64::try_from(random.below(self.sum(&free))).expect("a few tokens");
        match random.below(24) {
            0 => free.extend(any_of(self.tokens.keys(), random).cloned()),
            1 => free.clear(),
            2 => drop(free.pop()),
            _ => {}
        }
        Some(TokenMeans {
            wallet: first.wallet.clone(),
            payee: (*random.pick(&WALLETS)).into(),
            currency: Currency::from_letters(letters)?,
            ids: free,
            quantity,
        })
    }

    /// Tokens that somebody sees in a wallet, or was told of.
    pub fn believe(&mut self, tokens: &[Token]) {
        for token in tokens {
            let belief = || Belief { token: token.clone(), held_until: Millis::MIN };
            self.tokens.entry(token.id.clone()).or_insert_with(belief);
        }
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn one(&mut self, now: Millis, random: &mut Random) -> TokenCommand {
        if self.free(now).len() < 4 || random.chance(12) {
            return self.issue(random);
        }
        match random.below(100) {
            0..36 => self.lock(now, random),
            36..70 => self.spend(random),
            70..76 => self.unlock(random),
            76..84 => self.renew(random),
            84..95 => self.update(random),
            _ => self.lock_again(random),
        }
    }

    /// Tokens that look free, in the order of their ids.
    fn free(&self, now: Millis) -> Vec<TokenId> {
        let free = self.tokens.iter().filter(|(_, belief)| belief.held_until <= now);
        free.map(|(id, _)| id.clone()).collect()
    }

    /// Free tokens of one currency, mostly of one wallet, notary and type: an index mixes no others.
    fn alike(&self, now: Millis, random: &mut Random) -> Vec<TokenId> {
        let mut free = self.free(now);
        let Some(first) = any_of(free.iter(), random).map(|id| self.tokens[id].token.kind.clone()) else {
            return free;
        };
        let (any_wallet, any_kind) = (random.chance(15), random.chance(3));
        free.retain(|id| {
            let kind = &self.tokens[id].token.kind;
            let mixes = (&kind.wallet, &kind.notary, &kind.token_type)
                == (&first.wallet, &first.notary, &first.token_type);
            any_kind || (kind.currency == first.currency && (any_wallet || mixes))
        });
        free
    }

    fn new_token(&mut self, random: &mut Random) -> Token {
        let id = format!("t-{}", self.number());
        let quantity = u64::try_from(random.between(1, 40)).expect("it is above 0");
        let id = match any_of(self.transfers.iter(), random).filter(|_| random.chance(2)) {
            // What the transfer will produce when it is fulfilled.
            Some(transfer) => format!("hold:{transfer}.0"),
            None => id,
        };
        let token = Token::new(id, *random.pick(&WALLETS), *random.pick(&CURRENCIES), quantity);
        match random.below(12) {
            0 => token.notary("nina"),
            1 => token.issuer("ines"),
            2 => token.of_type("bond"),
            3 => token.attribute("colour", "x".repeat(random.size(1, 400))),
            _ => token,
        }
    }

    fn issue(&mut self, random: &mut Random) -> TokenCommand {
        let mut tokens: Vec<Token> = (0..random.size(1, 5)).map(|_| self.new_token(random)).collect();
        if random.chance(12)
            && let Some(known) = any_of(self.tokens.values(), random)
        {
            // One that lives, or that is gone for good.
            tokens.push(known.token.clone());
        }
        if random.chance(4) {
            tokens.push(tokens[0].clone());
        }
        TokenCommand::Issue { tokens }
    }

    fn lock(&mut self, now: Millis, random: &mut Random) -> TokenCommand {
        let mut free = self.alike(now, random);
        let wanted = random.size(1, 4);
        let mut ids = Vec::with_capacity(wanted);
        while ids.len() < wanted && !free.is_empty() {
            ids.push(free.swap_remove(random.index(free.len())));
        }
        // Now and then one that is taken, gone, unknown, or named twice.
        match random.below(20) {
            0..3 => ids.extend(self.another_like(&ids, random)),
            3 => ids.push(TokenId::from("nobody-has-it")),
            4 => ids.extend(ids.first().cloned()),
            _ => {}
        }
        self.lock_of(ids, random)
    }

    /// Any token of the same currency, whoever has it.
    fn another_like(&self, ids: &[TokenId], random: &mut Random) -> Option<TokenId> {
        let currency = ids.first().map(|id| &self.tokens[id].token.kind.currency);
        let alike = self
            .tokens
            .values()
            .filter(|belief| currency.is_none_or(|currency| belief.token.kind.currency == *currency));
        any_of(alike, random).map(|belief| belief.token.id.clone())
    }

    fn lock_of(&mut self, ids: Vec<TokenId>, random: &mut Random) -> TokenCommand {
        let mut spender: Name = format!("s-{}", self.number()).into();
        if random.chance(4)
            && let Some(transfer) = any_of(self.transfers.iter(), random)
        {
            // Somebody who would like what a transfer holds, or be in its way.
            spender = transfer.clone();
        }
        let amount = self.sum(&ids);
        let body = Fingerprint(random.wide());
        let lock = LockTokens { spender, ids: ids.into(), amount, lease_ms: lease(random), body };
        self.spenders.push(Spender { lock: lock.clone(), fences: Vec::new(), spend: None });
        TokenCommand::Lock(lock)
    }

    fn sum(&self, ids: &[TokenId]) -> u64 {
        ids.iter().filter_map(|id| self.tokens.get(id)).map(|belief| belief.token.quantity).sum()
    }

    /// The same request once more, or another one under the same name.
    fn lock_again(&mut self, random: &mut Random) -> TokenCommand {
        let Some(place) = self.place(random) else { return self.issue(random) };
        let mut lock = self.spenders[place].lock.clone();
        if random.chance(40) {
            lock.body = Fingerprint(random.wide());
        }
        if random.chance(40) {
            // An index that has moved on chooses other tokens for the same request.
            lock.ids = any_of(self.tokens.keys(), random).cloned().into_iter().collect();
        }
        TokenCommand::Lock(lock)
    }

    /// Somebody who locked: mostly one that holds something, or one of the latest.
    fn place(&self, random: &mut Random) -> Option<usize> {
        let known = self.spenders.len();
        let holds = |place: &usize| {
            let spender = &self.spenders[*place];
            !spender.fences.is_empty() && spender.spend.is_none()
        };
        let holders: Vec<usize> = (known.saturating_sub(40)..known).filter(holds).collect();
        if !holders.is_empty() && random.chance(65) {
            return Some(*random.pick(&holders));
        }
        let back = if random.chance(80) { random.index(8) } else { random.index(known) };
        known.checked_sub(1).map(|last| last.saturating_sub(back))
    }

    fn spend(&mut self, random: &mut Random) -> TokenCommand {
        let Some(place) = self.place(random) else { return self.issue(random) };
        let fence = self.fence(place, random);
        let request = self.request(place, fence, random);
        let spender = &mut self.spenders[place];
        if let Some(first) = spender.spend.as_ref().filter(|_| random.chance(60)) {
            // The same once more, as an edge would send it: under a new number.
            let mut again = first.clone();
            again.transaction = random.wide();
            again.request.fence = fence;
            return TokenCommand::Spend(again);
        }
        let body = request.fingerprint();
        let spend = SpendTokens { request, body, transaction: random.wide() };
        spender.spend.get_or_insert_with(|| spend.clone());
        TokenCommand::Spend(spend)
    }

    /// Mostly none or the right one; at times an old one, or of somebody else.
    fn fence(&self, place: usize, random: &mut Random) -> Option<u64> {
        let fences = &self.spenders[place].fences;
        match random.below(20) {
            0..8 => fences.last().copied(),
            8 => fences.first().copied(),
            9 => any_of(self.spenders.iter().flat_map(|spender| &spender.fences), random).copied(),
            10 => Some(random.below(500)),
            _ => None,
        }
    }

    fn request(&self, place: usize, fence: Option<u64>, random: &mut Random) -> SpendRequest {
        let lock = &self.spenders[place].lock;
        let sum = self.sum(&lock.ids);
        let mut left = match random.below(20) {
            0..9 => sum,
            9 => sum + 1,
            _ => random.below(sum.max(1)),
        };
        let redeem = if random.chance(25) { random.below(left + 1) } else { 0 };
        left -= redeem;
        let mut outputs = Vec::new();
        while left > 0 && outputs.len() < 4 {
            let quantity = if random.chance(50) { left } else { 1 + random.below(left) };
            outputs.push(Output::new(*random.pick(&WALLETS), quantity));
            left -= quantity;
        }
        SpendRequest { spender: lock.spender.clone(), fence, outputs, redeem }
    }

    fn unlock(&mut self, random: &mut Random) -> TokenCommand {
        let Some(place) = self.place(random) else { return self.issue(random) };
        let (spender, fence) = (self.spenders[place].lock.spender.clone(), self.fence(place, random));
        let transfer = any_of(self.transfers.iter(), random).filter(|_| random.chance(10));
        TokenCommand::Unlock { spender: transfer.cloned().unwrap_or(spender), fence }
    }

    fn renew(&mut self, random: &mut Random) -> TokenCommand {
        let Some(place) = self.place(random) else { return self.issue(random) };
        let (spender, fence) = (self.spenders[place].lock.spender.clone(), self.fence(place, random));
        TokenCommand::Renew { spender, fence, lease_ms: lease(random) }
    }

    /// The outside ledger: tokens come and go there, and the news of it overtake one another.
    fn update(&mut self, random: &mut Random) -> TokenCommand {
        let mut consumed: Vec<TokenId> = Vec::new();
        let mut produced: Vec<Token> = Vec::new();
        for _ in 0..random.size(1, 3) {
            match random.below(6) {
                0 => {
                    let token = self.new_token(random);
                    consumed.push(token.id.clone());
                    self.late.push(token);
                }
                1 if !self.late.is_empty() => produced.push(random.pick(&self.late).clone()),
                2 => consumed.extend(any_of(self.tokens.keys(), random).cloned()),
                3 => produced.extend(any_of(self.tokens.values(), random).map(|belief| belief.token.clone())),
                _ => produced.push(self.new_token(random)),
            }
        }
        if random.chance(6)
            && let Some(last) = produced.last_mut()
        {
            // The same id with another worth: if it lives the two ledgers contradict one another.
            last.quantity += 1;
        }
        TokenCommand::Update { consumed, produced }
    }

    /// Lock and spend in one submission, as a consolidation does it.
    fn lock_and_spend(&mut self, now: Millis, random: &mut Random) -> Vec<TokenCommand> {
        let lock = self.lock(now, random);
        let place = self.spenders.len() - 1;
        let request = self.request(place, None, random);
        let spend = SpendTokens { body: request.fingerprint(), request, transaction: random.wide() };
        self.spenders[place].spend = Some(spend.clone());
        vec![lock, TokenCommand::Spend(spend)]
    }

    /// Several who want the same at once.
    fn contend(&mut self, now: Millis, random: &mut Random) -> Vec<TokenCommand> {
        let free = self.alike(now, random);
        if free.is_empty() {
            return vec![self.issue(random)];
        }
        let wanted = random.pick(&free).clone();
        (0..random.size(2, 4))
            .map(|_| {
                let mut ids = vec![wanted.clone()];
                ids.extend(Some(random.pick(&free)).filter(|other| **other != wanted).cloned());
                self.lock_of(ids, random)
            })
            .collect()
    }
}

/// From a millisecond to longer than any run.
fn lease(random: &mut Random) -> Millis {
    match random.below(20) {
        0..2 => random.between(1, 5),
        2..6 => random.between(1, 300),
        6..17 => random.between(300, 6_000),
        17..19 => random.between(6_000, 30_000),
        _ => LEASE_MS_MAX,
    }
}

fn any_of<T>(mut of: impl Iterator<Item = T> + Clone, random: &mut Random) -> Option<T> {
    let count = of.clone().count();
    of.nth(random.index(count))
}
