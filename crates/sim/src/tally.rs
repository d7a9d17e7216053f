//! What happened in a run, counted. A simulator whose faults never strike proves nothing, so a test demands that
//! each of these is above zero over a few hundred seeds.

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of events, by name.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tally {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Tally) {
                $(self.$name += other.$name;)*
            }

            /// Every count with its name.
            pub fn entries(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

tally! {
    /// Frames that became durable.
    frames,
    /// Records in them.
    records,
    /// Frames closed with prepares in order of arrival.
    frames_by_arrival,
    /// Frames closed with the smallest prepares first.
    frames_by_amount,
    /// Frames in which one transfer had several commands.
    frames_cut,
    /// Prepares that were reserved.
    reserved,
    /// Transfers committed.
    committed,
    /// Transfers aborted by the payee or by a wrong preimage.
    aborted,
    /// Holds that expiry ended.
    expired,
    /// Prepares refused for want of cover (4001).
    refused_cover,
    /// Prepares refused by the cap (4200).
    refused_cap,
    /// Prepares stored as INVALID.
    invalid,
    /// Requests modified under the same id (3106).
    modified,
    /// Commands of the wrong party.
    wrong_party,
    /// Fulfils with a wrong preimage that ended their transfer.
    wrong_preimage,
    /// Fulfils and aborts that came too late (3303).
    too_late,
    /// Fulfils and aborts of a transfer nobody knows (3208).
    not_found,
    /// Commands sent again.
    repeats,
    /// Limits set, up or down.
    limits_set,
    /// Participants and accounts switched off or on.
    switched,
    /// Movements of funds into the hub.
    funds_in,
    /// Funds reserved to leave.
    funds_out,
    /// Funds out refused, for a position stood on them.
    funds_out_refused,
    /// First limits set on an account that money had reached already.
    late_initial_positions,
    /// Tokens issued.
    tokens_issued,
    /// Locks put on tokens.
    locks,
    /// Spends that happened.
    spends,
    /// Updates of an outside ledger that changed something.
    token_updates,
    /// Commands about tokens that were refused.
    tokens_refused,
    /// Transfers that tokens paid for.
    transfers_on_tokens,
    /// Leases that expiry ended.
    leases_ended,
    /// Orders that were paid.
    orders_paid,
    /// Of these, by a position.
    paid_by_position,
    /// Of these, by tokens.
    paid_by_tokens,
    /// Checkouts that failed and gave everything back.
    checkouts_failed,
    /// Checkouts that stayed open after their frame.
    checkouts_opened,
    /// Checkouts that their deadline ended.
    deadlines,
    /// Idempotency keys whose time was over.
    keys_ended,
    /// Words from outside that contradicted what was known, or that nobody had asked for.
    shop_alarms,
    /// Commands to the shop that were refused.
    shop_refused,
    /// Submissions refused for a full intake.
    busy,
    /// Submissions refused for a jumped clock.
    refused_clock,
    /// Jumps of the wall clock that were taken back.
    jumps_undone,
    /// Jumps of the wall clock that the operator confirmed.
    jumps_confirmed,
    /// Starts with a clock far behind the log.
    behind_log,
    /// Losses of power at a sync.
    crashes_at_sync,
    /// Of these, in the middle of a rotation.
    crashes_in_rotation,
    /// Losses of power between two frames.
    crashes_between,
    /// Losses of power while the log was being opened.
    crashes_in_recovery,
    /// Errors of the medium while the log was being opened.
    errors_in_recovery,
    /// Processes killed; the machine lived.
    kills,
    /// Hubs that stopped with a reason, without a loss of power.
    stops,
    /// Clean stops that left a checkpoint at the end of the log.
    clean_stops,
    /// Clean stops that failed.
    clean_stops_failed,
    /// Block writes of the store.
    block_writes,
    /// Checkpoints made.
    checkpoints,
    /// Merges of id runs.
    merges,
    /// Jobs of the store that failed.
    jobs_failed,
    /// Of these, by a loss of power.
    crashes_in_jobs,
    /// Starts from a checkpoint with frames to replay after it.
    starts_with_replay,
    /// Starts from a checkpoint that needed no replay.
    starts_without_replay,
    /// Times that the operator moved the store's folder away.
    stores_removed,
    /// Questions about the state that were refused.
    views_refused,
    /// Logs that were refused for damage: the run ends there.
    logs_refused,
    /// Logs whose last frame was lost beyond proof: the run ends there.
    beyond_proof,
    /// Damage in the log that no start had to read, found by reading it all.
    found_late,
    /// Commands about transfers that ended long ago, sent again.
    old_repeats,
    /// Submissions refused by a hub that had stopped.
    refused_stopped,
    /// Restarts in all.
    restarts,
    /// Torn tails that were cut at a restart.
    torn_tails,
    /// Frames that were never acknowledged and survived.
    survived_unacknowledged,
    /// Frames that were never acknowledged and vanished.
    vanished_unacknowledged,
    /// Commands whose outcome a client did not know.
    unknown,
    /// Of these, learned by repeating.
    learned,
    /// Segments begun.
    segments,
    /// Spare segments prepared ahead.
    spares,
    /// Times that earlier commands were sent again and no row changed.
    replays_checked,
}
