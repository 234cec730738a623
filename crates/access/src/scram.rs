//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side.
//!
//! Invariants:
//! - The server keeps a verifier, from which the password cannot be had, and never sees the password.
//! - A user who does not exist is answered as one whose password is wrong, in the same steps and with the same work; the salt is made
//!   from the name and a key of this process, so that asking again gives the same one.
//! - Proofs are compared in constant time.
//! - No client decides how long the server works: a verifier with fewer iterations than ours, or with more than [`ITERATIONS_MAX`], is refused
//!   where it is set, and lets nobody in where it stands already ([`Verifier::check`]).
//!
//! What a client is told before it proves anything is a salt and a number of iterations. For names that nobody has, these look as our
//! own verifiers' do. So two things still tell that a role exists: a verifier that was made elsewhere, with a salt of another length or
//! other iterations; and that the salt of a name stays the same over a restart, since the key of those who do not exist is new then.

use alluvia_types::{Error, ErrorKind, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;

/// The name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// What a verifier begins with.
const PREFIX: &str = "SCRAM-SHA-256$";
/// Of our own verifiers, and the fewest that are taken: what RFC 7677 asks for.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4_096).expect("it is not zero");
/// The most: each password that comes in the clear costs so many, tens of milliseconds of a core.
const ITERATIONS_MAX: NonZeroU32 = NonZeroU32::new(100_000).expect("it is not zero");
const SALT_BYTES: usize = 16;
/// The longest salt that is taken: it is kept with the definitions, and sent to whoever says the name.
const SALT_BYTES_MAX: usize = 64;
const KEY_BYTES: usize = 32;

/// What a server knows of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(...)")
    }
}

impl fmt::Display for Verifier {
    /// As PostgreSQL keeps it: `SCRAM-SHA-256$4096:salt$stored:server`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{PREFIX}{}:{salt}${stored}:{server}", self.iterations)
    }
}

impl Verifier {
    /// Of a password, with a new salt.
    pub fn new(password: &str) -> Result<Verifier> {
        Ok(Verifier::with(password, &random::<SALT_BYTES>()?, ITERATIONS))
    }

    fn with(password: &str, salt: &[u8], iterations: NonZeroU32) -> Verifier {
        // What has no normal form is taken as it is, as PostgreSQL does.
        let normal = stringprep::saslprep(password).unwrap_or_else(|_| password.into());
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, normal.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        Verifier {
            iterations,
            salt: salt.to_vec(),
            stored_key: hash(&client_key),
            server_key: sign(&salted, b"Server Key"),
        }
    }

    /// Whether it is this password's; compared in constant time.
    pub(crate) fn is_of(&self, password: &str) -> bool {
        let other = Verifier::with(password, &self.salt, self.iterations);
        is_same(&other.stored_key, &self.stored_key)
    }

    /// The verifier that somebody gives in the place of a password; `None` of a password. What begins as a verifier and is none that
    /// can be used is refused.
    pub fn given(text: &str) -> Result<Option<Verifier>> {
        if !text.trim().starts_with(PREFIX) {
            return Ok(None);
        }
        let verifier = Verifier::parse(text).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidSetting,
                format!("what begins with {PREFIX} is a verifier, and this one cannot be read"),
            )
            .with_hint(format!("it is {PREFIX}iterations:salt$stored:server; or give the password itself"))
        })?;
        verifier.check().map(|()| Some(verifier))
    }

    /// Refuses one that must not be worked out.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |what: String| {
            Err(Error::new(ErrorKind::InvalidSetting, format!("the verifier of the password has {what}"))
                .with_hint("set the password itself, or a verifier within these bounds"))
        };
        if !(ITERATIONS..=ITERATIONS_MAX).contains(&self.iterations) {
            return refused(format!("{} iterations: {ITERATIONS} to {ITERATIONS_MAX} are taken", self.iterations));
        }
        if self.salt.is_empty() || self.salt.len() > SALT_BYTES_MAX {
            return refused(format!("a salt of {} bytes: 1 to {SALT_BYTES_MAX} are taken", self.salt.len()));
        }
        Ok(())
    }

    /// Reads what `Display` writes, whether or not it may be used.
    pub fn parse(text: &str) -> Option<Verifier> {
        let rest = text.trim().strip_prefix(PREFIX)?;
        let (derivation, keys) = rest.split_once('$')?;
        let (iterations, salt) = derivation.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| <[u8; KEY_BYTES]>::try_from(BASE64.decode(text).ok()?).ok();
        Some(Verifier {
            iterations: iterations.parse().ok()?,
            salt: BASE64.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }
}

/// HMAC-SHA-256.
pub(crate) fn sign(key: &[u8], data: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

fn hash(data: &[u8]) -> [u8; KEY_BYTES] {
    let digest = digest::digest(&digest::SHA256, data);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let failed = |_| Error::new(ErrorKind::Io, "the machine gives no random numbers");
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// A password of 24 letters, digits and dashes: 144 bits of chance.
pub fn random_password() -> Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    Ok(random::<24>()?.iter().map(|byte| char::from(LETTERS[usize::from(byte & 63)])).collect())
}

/// A new key.
pub(crate) fn random_key() -> Result<[u8; KEY_BYTES]> {
    random()
}

/// A key of this process, for the salts of users who do not exist.
pub struct Decoys {
    key: [u8; KEY_BYTES],
}

impl Decoys {
    /// With a new key.
    pub fn new() -> Result<Decoys> {
        Ok(Decoys { key: random()? })
    }

    /// A verifier that no password meets, with a salt and iterations as [`Verifier::new`] makes them.
    pub fn verifier(&self, user: &str) -> Verifier {
        let salt = sign(&self.key, user.as_bytes());
        Verifier {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].to_vec(),
            stored_key: sign(&self.key, &salt),
            server_key: sign(&self.key, b"server"),
        }
    }
}

/// An exchange after its first message.
pub struct Exchange {
    verifier: Verifier,
    nonce: String,
    /// What both sides sign, up to the client's last message.
    signed: String,
    /// The client's header, which its last message repeats.
    header: String,
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, format!("the client's SCRAM message cannot be read: {what}"))
}

impl Exchange {
    /// Takes the client's first message; gives the exchange and the server's answer.
    pub fn begin(message: &str, verifier: Verifier) -> Result<(Exchange, String)> {
        let server_nonce = BASE64.encode(random::<18>()?);
        Exchange::begin_with(message, verifier, &server_nonce)
    }

    fn begin_with(message: &str, verifier: Verifier, server_nonce: &str) -> Result<(Exchange, String)> {
        // n: no channel binding; y: the client could, and believes that we cannot, which is true.
        let rest = message.strip_prefix("n,").or_else(|| message.strip_prefix("y,"));
        let rest = rest.ok_or_else(|| broken("channel binding is not offered"))?;
        let (authzid, bare) = rest.split_once(',').ok_or_else(|| broken("it has no header"))?;
        if !authzid.is_empty() {
            return Err(broken("another identity is not supported"));
        }
        let header = message[..message.len() - bare.len()].to_owned();
        // The name is that of the startup message; PostgreSQL's clients leave this one empty.
        let mut attributes = bare.split(',');
        let (Some(_), Some(nonce)) = (attributes.next().and_then(|name| name.strip_prefix("n=")), attributes.next())
        else {
            return Err(broken("it has no name or no nonce"));
        };
        let client_nonce = nonce.strip_prefix("r=").filter(|nonce| !nonce.is_empty());
        let client_nonce = client_nonce.ok_or_else(|| broken("it has no nonce"))?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let signed = format!("{bare},{answer}");
        Ok((Exchange { verifier, nonce, signed, header }, answer))
    }

    /// Takes the client's last message; gives the server's, if the proof is right.
    pub fn finish(self, message: &str) -> Result<Option<String>> {
        let (without_proof, proof) = message.rsplit_once(",p=").ok_or_else(|| broken("it has no proof"))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|binding| binding.strip_prefix("c="));
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r="));
        if binding != Some(&BASE64.encode(&self.header)) {
            return Err(broken("its header is not that of the first message"));
        }
        if nonce != Some(&self.nonce) {
            return Err(broken("its nonce is not the server's"));
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| <[u8; KEY_BYTES]>::try_from(proof).ok());
        let proof = proof.ok_or_else(|| broken("its proof has the wrong length"))?;
        let signed = format!("{},{without_proof}", self.signed);
        let signature = sign(&self.verifier.stored_key, signed.as_bytes());
        let mut client_key = [0; KEY_BYTES];
        for (at, byte) in client_key.iter_mut().enumerate() {
            *byte = proof[at] ^ signature[at];
        }
        let is_right = is_same(&hash(&client_key), &self.verifier.stored_key);
        let answer = BASE64.encode(sign(&self.verifier.server_key, signed.as_bytes()));
        Ok(is_right.then(|| format!("v={answer}")))
    }
}

/// Compares in a time that does not depend on where they differ.
pub(crate) fn is_same(a: &[u8; KEY_BYTES], b: &[u8; KEY_BYTES]) -> bool {
    let differ = a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_holds() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with("pencil", &salt, NonZeroU32::new(4096).unwrap());
        assert_eq!(Verifier::parse(&verifier.to_string()), Some(verifier.clone()));
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let begin = || Exchange::begin_with(first, verifier.clone(), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0").unwrap();
        let (exchange, answer) = begin();
        assert_eq!(answer, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let right = exchange.finish(last).unwrap();
        assert_eq!(right.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        let wrong = last.replace("p=dHz", "p=eHz");
        assert_eq!(begin().0.finish(&wrong).unwrap(), None);
        for broken in ["", "c=biws", "c=eSws,r=x,p=AAAA", &last.replace("biws", "eSws"), &last.replace("r=r", "r=q")] {
            assert!(begin().0.finish(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn first_messages_that_are_not_understood_are_refused() {
        let verifier = Decoys::new().unwrap().verifier("nobody");
        for message in ["", "p=tls-server-end-point,,n=,r=x", "n,a=other,n=,r=x", "n,,n=", "n,,n=,r="] {
            assert!(Exchange::begin(message, verifier.clone()).is_err(), "{message}");
        }
        assert_ne!(random_password().unwrap(), random_password().unwrap());
        assert_eq!(Verifier::parse("SCRAM-SHA-256$0:AA==$AA==:AA=="), None);
    }

    #[test]
    fn a_verifier_that_would_cost_too_much_or_too_little_is_refused() {
        let key = BASE64.encode([7; KEY_BYTES]);
        let text = |iterations: &str, salt: &[u8]| format!("{PREFIX}{iterations}:{}${key}:{key}", BASE64.encode(salt));
        for (iterations, salt, refused) in [
            ("4096", 16, None),
            ("100000", 1, None),
            ("4096", 64, None),
            ("4095", 16, Some("4095 iterations: 4096 to 100000 are taken")),
            ("1", 16, Some("1 iterations")),
            ("100001", 16, Some("100001 iterations")),
            ("4294967295", 16, Some("4294967295 iterations")),
            ("4096", 0, Some("a salt of 0 bytes")),
            ("4096", 65, Some("a salt of 65 bytes: 1 to 64")),
            ("0", 16, Some("cannot be read")),
            ("4294967296", 16, Some("cannot be read")),
            ("many", 16, Some("cannot be read")),
        ] {
            let given = Verifier::given(&text(iterations, &vec![1; salt]));
            match (given, refused) {
                (Ok(Some(verifier)), None) => assert_eq!(verifier.to_string(), text(iterations, &vec![1; salt])),
                (Err(error), Some(refused)) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{error}");
                    assert!(error.message().contains(refused) && !error.to_string().contains(&key), "{error}");
                }
                (given, _) => panic!("{iterations} iterations, a salt of {salt} bytes: {given:?}"),
            }
        }
        for password in ["", "secret", "SCRAM-SHA-256", "scram-sha-256$4096:"] {
            assert_eq!(Verifier::given(password).unwrap(), None, "{password}");
        }
    }

    #[test]
    fn whoever_does_not_exist_looks_like_whoever_has_a_password_of_ours() {
        let (decoys, others) = (Decoys::new().unwrap(), Decoys::new().unwrap());
        let (decoy, ours) = (decoys.verifier("nobody"), Verifier::new("secret").unwrap());
        assert_eq!((decoy.iterations, decoy.salt.len()), (ours.iterations, ours.salt.len()));
        assert!(decoy.check().is_ok() && ours.check().is_ok());
        assert_eq!(decoy, decoys.verifier("nobody"));
        assert!(decoy.salt != decoys.verifier("somebody").salt && decoy.salt != others.verifier("nobody").salt);
    }
}
