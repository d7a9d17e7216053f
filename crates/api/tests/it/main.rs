//! The HTTP edge on a hub of its own, without a socket in between.

mod fspiop_takes_anything;
