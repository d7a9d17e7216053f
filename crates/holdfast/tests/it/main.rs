//! What the binary promises, tested through the binary itself: at its command line, over HTTP, and under kill -9.

mod admin_api;
mod admin_refusals;
mod callback_sequences;
mod callbacks;
mod callbacks_over_tls;
mod cli;
mod config;
mod data_directory;
mod dry_run_checkout;
mod dry_run_position;
mod dry_run_tokens;
mod fspiop_api;
mod fspiop_refusals;
mod fulfil_races_expiry;
mod funded_transfers;
mod keys;
mod kill_nine;
mod measuring;
mod openapi;
mod overload;
mod serve;
mod shop;
mod support;
mod tls;
mod tokens_cli;
mod transfers_view;
