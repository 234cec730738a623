//! From SQL text to what Alluvia does: parsing, hints, refusals, definitions.
