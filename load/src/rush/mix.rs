//! Which kinds of visitors come, in which shares.

use std::fmt;
use std::str::FromStr;

use crate::dice::Dice;
use crate::history::Role;

/// Shares of the kinds of visitors, such as `ordinary=60,impatient=10,bot=5`; they need not sum to 100.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix(Vec<(Role, f64)>);

/// Why a text is no mix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no share; write ordinary=56,impatient=10,ghost=8,replayer=5,bot=5,hidden=6,plain=5,app=5")]
pub struct InvalidMix(String);

const NAMES: [(&str, Role); 8] = [
    ("ordinary", Role::Ordinary),
    ("impatient", Role::Impatient),
    ("ghost", Role::Ghost),
    ("replayer", Role::Replayer),
    ("bot", Role::Bot),
    ("hidden", Role::Hidden),
    ("plain", Role::Plain),
    ("app", Role::App),
];

impl Default for Mix {
    fn default() -> Self {
        let shares = [56.0, 10.0, 8.0, 5.0, 5.0, 6.0, 5.0, 5.0];
        Self(NAMES.iter().zip(shares).map(|((_, role), share)| (*role, share)).collect())
    }
}

impl Mix {
    /// The kind of one visitor.
    #[must_use]
    pub fn pick(&self, dice: &mut Dice) -> Role {
        let mut at = dice.between(0.0, self.0.iter().map(|(_, share)| share).sum());
        for &(role, share) in &self.0 {
            if at < share {
                return role;
            }
            at -= share;
        }
        Role::Ordinary
    }
}

impl FromStr for Mix {
    type Err = InvalidMix;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shares = text.split(',').map(|part| {
            let wrong = || InvalidMix(part.to_owned());
            let (name, share) = part.trim().split_once('=').ok_or_else(wrong)?;
            let (_, role) = NAMES.iter().find(|(known, _)| *known == name).ok_or_else(wrong)?;
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if share.is_finite() && share >= 0.0 { Ok((*role, share)) } else { Err(wrong()) }
        });
        shares.collect::<Result<Vec<_>, _>>().map(Self)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (role, share)) in self.0.iter().enumerate() {
            let name = NAMES.iter().find(|(_, known)| known == role).map_or("?", |(name, _)| name);
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{name}={share}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_survives_its_text_and_nonsense_is_refused() {
        let mix = Mix::default();
        assert_eq!(mix.to_string().parse(), Ok(mix));
        for text in ["", "ordinary", "ordinary=x", "ordinary=-1", "cat=5", "ordinary=inf"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn kinds_come_in_their_shares() {
        let mix: Mix = "ordinary=3,bot=1".parse().unwrap();
        let mut dice = Dice::new(3, 3);
        let bots = (0..4_000).filter(|_| mix.pick(&mut dice) == Role::Bot).count();
        assert!((900..1_100).contains(&bots), "{bots}");
    }
}
