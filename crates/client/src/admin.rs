//! The operator's calls: participants, limits and funds. They travel like any other record.

use holdfast_domain::command::{Admin, Command};
use holdfast_domain::ids::{AccountId, Currency, ParticipantId, TransferId};
use holdfast_domain::money::Amount;
use holdfast_domain::participants::Name;
use holdfast_domain::records::batch::Reply;

use crate::{Client, ClientError};

impl Client {
    /// Sends one command of the operator.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn admin(&self, admin: Admin) -> Result<Reply, ClientError> {
        self.call(Command::Admin(admin)).await
    }

    /// Makes a participant, or a further currency for one; [`crate::Created::from_reply`] reads the numbers.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn create_participant(&self, name: Name, currency: Currency) -> Result<Reply, ClientError> {
        self.admin(Admin::CreateParticipant { name, currency }).await
    }

    /// Gives a participant its first position and net debit cap, and makes its accounts active.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn initial_position_and_limits(
        &self,
        participant: ParticipantId,
        currency: Currency,
        initial_position: Amount,
        net_debit_cap: Amount,
    ) -> Result<Reply, ClientError> {
        self.admin(Admin::InitialPositionAndLimits { participant, currency, net_debit_cap, initial_position })
            .await
    }

    /// Sets another net debit cap.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn set_limit(
        &self,
        participant: ParticipantId,
        currency: Currency,
        net_debit_cap: Amount,
        alarm_percentage: u16,
    ) -> Result<Reply, ClientError> {
        self.admin(Admin::SetLimit { participant, currency, net_debit_cap, alarm_percentage }).await
    }

    /// Funds have arrived for a settlement account.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn funds_in(
        &self,
        id: TransferId,
        account: AccountId,
        currency: Currency,
        amount: Amount,
    ) -> Result<Reply, ClientError> {
        self.admin(Admin::FundsIn { id, account, currency, amount }).await
    }

    /// Funds are to leave a settlement account: tested and taken at once.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn funds_out_reserve(
        &self,
        id: TransferId,
        account: AccountId,
        currency: Currency,
        amount: Amount,
    ) -> Result<Reply, ClientError> {
        self.admin(Admin::FundsOutReserve { id, account, currency, amount }).await
    }

    /// They have left.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn funds_out_commit(&self, id: TransferId, account: AccountId) -> Result<Reply, ClientError> {
        self.admin(Admin::FundsOutCommit { id, account }).await
    }

    /// They come back.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn funds_out_abort(&self, id: TransferId, account: AccountId) -> Result<Reply, ClientError> {
        self.admin(Admin::FundsOutAbort { id, account }).await
    }

    /// Lets a participant take part in new transfers, or not.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn set_participant_active(
        &self,
        participant: ParticipantId,
        active: bool,
    ) -> Result<Reply, ClientError> {
        self.admin(Admin::SetParticipantActive { participant, active }).await
    }

    /// The same for one position account.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub async fn set_account_active(&self, account: AccountId, active: bool) -> Result<Reply, ClientError> {
        self.admin(Admin::SetAccountActive { account, active }).await
    }
}
