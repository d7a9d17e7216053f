//! Enums whose members have numbers that are written down, and perhaps a text. Each member is listed once, with both.

/// An enum of such numbers, with all its members in the order of their numbers, and the way from a number back to its member.
/// With a name for it, as in `pub enum State: u8, name { New = 1 => "NEW" }`, that function tells each member's text.
macro_rules! numbered {
    ($(#[$about:meta])* pub enum $enum:ident: $number:ty {
        $($(#[$doc:meta])* $member:ident = $value:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($number)]
        pub enum $enum {
            $($(#[$doc])* $member = $value,)+
        }

        impl $enum {
            /// All of them, in the order of their numbers.
            pub const ALL: [$enum; [$($value),+].len()] = [$($enum::$member),+];

            /// The number that is written down.
            #[must_use]
            pub const fn number(self) -> $number {
                self as $number
            }

            /// The one of that number.
            #[must_use]
            pub fn from_number(number: $number) -> Option<$enum> {
                $enum::ALL.into_iter().find(|one| one.number() == number)
            }
        }
    };
    ($(#[$about:meta])* pub enum $enum:ident: $number:ty, $text:ident {
        $($(#[$doc:meta])* $member:ident = $value:literal => $words:literal,)+
    }) => {
        $crate::numbered::numbered! {
            $(#[$about])* pub enum $enum: $number {
                $($(#[$doc])* $member = $value,)+
            }
        }

        impl $enum {
            /// It as a text, which is part of what others read.
            #[must_use]
            pub const fn $text(self) -> &'static str {
                match self {
                    $($enum::$member => $words,)+
                }
            }
        }
    };
}
pub(crate) use numbered;
