//! The engine below SQL, simulated.

mod keyed;
