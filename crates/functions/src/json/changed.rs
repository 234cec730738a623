//! What operators and functions look for in JSON, take apart or change: `@>`, `?`, `||`, `-`, `#-`, `jsonb_set`, `json_array_elements` and others.
//!
//! Invariants, as in PostgreSQL:
//! - What is made of JSONB is JSONB, and written as such.
//! - NULL in, NULL out. What has no such parts is an error that says so (22023).
//! - Functions of rows give lists here, which `alluvia_syntax` puts into `unnest`.

use super::text::normalised;
use super::tree::{Node, key_text};
use crate::casts::kinds::{Kind, field_of, kind_of};
use crate::columnar::{as_columnar, is_constant, rows_made};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::list_text::array_elements;
use arrow::array::{Array, ArrayRef, AsArray, BooleanBuilder, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion_common::{DataFusionError, Result, plan_err};
use datafusion_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    /// `@>`
    Contains,
    /// `?`
    Names,
    /// `?|`
    NamesAny,
    /// `?&`
    NamesAll,
    /// `||`
    Joined,
    /// `-`
    Without,
    /// `#-`
    WithoutPath,
    /// `jsonb_set`
    Set,
    /// `jsonb_strip_nulls`
    Stripped,
    /// `jsonb_pretty`
    Lines,
    /// `jsonb_typeof`
    TypeName,
    /// The elements of an array.
    Elements,
    /// The same as texts.
    ElementTexts,
    /// The keys of an object.
    Keys,
    /// The values of an object.
    Values,
    /// The same as texts.
    ValueTexts,
}

/// A function of JSON.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Changed {
    work: Work,
    name: &'static str,
    /// JSON or JSONB, by its name.
    kind: Kind,
    signature: Signature,
}

/// One result.
enum Found {
    Null,
    Truth(bool),
    Text(String),
    List(Vec<Option<String>>),
}

impl Changed {
    /// By the name that statements call it by, or that the operator has.
    pub(crate) fn new(name: &'static str, work: Work) -> Changed {
        let kind = if name.starts_with("jsonb") { Kind::Jsonb } else { Kind::Json };
        Changed { work, name, kind, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn error(&self, message: impl Into<String>) -> DataFusionError {
        wrap(Error::new(ErrorKind::InvalidArgument, message.into()))
    }

    /// The value of JSONB as it is written.
    fn made(&self, node: &Node) -> Result<Found> {
        Ok(Found::Text(if self.kind == Kind::Jsonb { normalised(&node.write())? } else { node.write() }))
    }

    fn elements(&self, node: Node) -> Result<Vec<Node>> {
        match (node, self.kind) {
            (Node::Array(elements), _) => Ok(elements),
            (Node::Object(_), Kind::Jsonb) => Err(self.error("cannot extract elements from an object")),
            (_, Kind::Jsonb) => Err(self.error("cannot extract elements from a scalar")),
            (Node::Object(_), _) => Err(self.error(format!("cannot call {} on a non-array", self.shown()))),
            _ => Err(self.error(format!("cannot call {} on a scalar", self.shown()))),
        }
    }

    fn members(&self, node: Node) -> Result<Vec<(String, Node)>> {
        let of_keys = self.name.contains("object_keys");
        match (node, self.kind) {
            (Node::Object(members), _) => Ok(members),
            (Node::Array(_), _) if of_keys => Err(self.error(format!("cannot call {} on an array", self.shown()))),
            (_, _) if of_keys => Err(self.error(format!("cannot call {} on a scalar", self.shown()))),
            (_, Kind::Jsonb) => Err(self.error(format!("cannot call {} on a non-object", self.shown()))),
            (Node::Array(_), _) => Err(self.error("cannot deconstruct an array as an object")),
            _ => Err(self.error("cannot deconstruct a scalar")),
        }
    }

    /// The function of rows that it stands for.
    fn shown(&self) -> &'static str {
        rows_of(self.name).unwrap_or(self.name)
    }

    /// What becomes of a value; `texts` are the further arguments.
    fn one(&self, node: Node, further: &[ArrayRef], row: usize) -> Result<Found> {
        let text = |at: usize| further[at].as_string_view().value(row);
        Ok(match self.work {
            Work::Contains => Found::Truth(node.contains(&Node::of(text(0))?)),
            Work::Names => Found::Truth(node.names(text(0))),
            Work::NamesAny => Found::Truth(path(&further[0], row)?.iter().flatten().any(|name| node.names(name))),
            Work::NamesAll => Found::Truth(path(&further[0], row)?.iter().flatten().all(|name| node.names(name))),
            Work::Joined => self.made(&joined(node, Node::of(text(0))?))?,
            Work::Without => self.made(&self.without(node, &further[0], row)?)?,
            Work::WithoutPath => {
                let path = path(&further[0], row)?;
                if matches!(node, Node::Array(_) | Node::Object(_)) {
                    self.made(&without_path(node, &path, 0)?)?
                } else {
                    return Err(self.error("cannot delete path in scalar"));
                }
            }
            Work::Set => {
                let path = path(&further[0], row)?;
                let creates = further.get(2).is_none_or(|creates| creates.as_boolean().value(row));
                if !matches!(node, Node::Array(_) | Node::Object(_)) {
                    return Err(self.error("cannot set path in scalar"));
                }
                self.made(&set(node, &path, 0, &Node::of(text(1))?, creates)?)?
            }
            Work::Stripped => {
                let node = node.stripped();
                if self.kind == Kind::Jsonb {
                    self.made(&node)?
                } else {
                    let mut tight = String::new();
                    node.write_tight(&mut tight);
                    Found::Text(tight)
                }
            }
            Work::Lines => {
                let mut lines = String::new();
                node.write_lines(0, &mut lines);
                Found::Text(lines)
            }
            Work::TypeName => Found::Text(node.type_name().to_owned()),
            Work::Elements => Found::List(self.elements(node)?.iter().map(|of| Some(of.write())).collect()),
            Work::ElementTexts => Found::List(self.elements(node)?.iter().map(Node::text).collect()),
            Work::Keys => Found::List(self.members(node)?.iter().map(|(key, _)| Some(key_text(key))).collect()),
            Work::Values => Found::List(self.members(node)?.iter().map(|(_, of)| Some(of.write())).collect()),
            Work::ValueTexts => Found::List(self.members(node)?.iter().map(|(_, of)| of.text()).collect()),
        })
    }

    fn without(&self, node: Node, wanted: &ArrayRef, row: usize) -> Result<Node> {
        if let Some(places) = wanted.as_primitive_opt::<Int64Type>() {
            return match node {
                Node::Array(mut elements) => {
                    if let Some(at) = place(places.value(row), elements.len()) {
                        elements.remove(at);
                    }
                    Ok(Node::Array(elements))
                }
                Node::Object(_) => Err(self.error("cannot delete from object using integer index")),
                _ => Err(self.error("cannot delete from scalar")),
            };
        }
        let names: Vec<String> = match wanted.data_type() {
            DataType::List(_) => path(wanted, row)?.into_iter().flatten().collect(),
            _ => vec![wanted.as_string_view().value(row).to_owned()],
        };
        match node {
            Node::Object(members) => {
                let kept = members.into_iter().filter(|(key, _)| !names.contains(&key_text(key)));
                Ok(Node::Object(kept.collect()))
            }
            Node::Array(elements) => {
                let is_named = |of: &Node| matches!(of, Node::Text(inner) if names.contains(&key_text(inner)));
                Ok(Node::Array(elements.into_iter().filter(|element| !is_named(element)).collect()))
            }
            _ => Err(self.error("cannot delete from scalar")),
        }
    }

    /// What it gives.
    pub(super) fn given(&self) -> FieldRef {
        let list = |of: FieldRef| Arc::new(Field::new(self.name, DataType::List(of), true));
        let plain = |of: DataType| Arc::new(Field::new(self.name, of, true));
        let item = |kind: Kind| field_of(kind, Field::LIST_FIELD_DEFAULT_NAME);
        match self.work {
            Work::Contains | Work::Names | Work::NamesAny | Work::NamesAll => plain(DataType::Boolean),
            Work::Joined | Work::Without | Work::WithoutPath | Work::Set | Work::Stripped => {
                field_of(self.kind, self.name)
            }
            Work::Lines | Work::TypeName => plain(DataType::Utf8View),
            Work::Elements | Work::Values => list(item(self.kind)),
            Work::ElementTexts | Work::Keys | Work::ValueTexts => {
                list(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
            }
        }
    }
}

/// The function of rows that a function of lists stands for.
fn rows_of(list: &str) -> Option<&'static str> {
    alluvia_values::calls::JSON_ROWS.iter().find(|(_, lists)| lists.contains(&list)).map(|(rows, _)| *rows)
}

/// A place in an array, counted from its end where it is negative.
fn place(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index.checked_add(length as i64)? } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// The steps of a path, or the names of a list.
fn path(paths: &ArrayRef, row: usize) -> Result<Vec<Option<String>>> {
    if let Some(lists) = paths.as_list_opt::<i32>() {
        let steps = lists.value(row);
        return Ok(steps.as_string_view().iter().map(|step| step.map(str::to_owned)).collect());
    }
    let text = paths.as_string_view().value(row);
    array_elements(text)
        .ok_or_else(|| wrap(Error::new(ErrorKind::InvalidText, format!("malformed array literal: \"{text}\""))))
}

fn step(path: &[Option<String>], at: usize) -> Result<&str> {
    path[at]
        .as_deref()
        .ok_or_else(|| wrap(Error::new(ErrorKind::NotNull, format!("path element at position {} is null", at + 1))))
}

/// A step as a place in an array.
fn index(step: &str, at: usize) -> Result<i64> {
    step.parse().map_err(|_| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", at + 1);
        wrap(Error::new(ErrorKind::InvalidText, message))
    })
}

fn joined(one: Node, other: Node) -> Node {
    let listed = |node: Node| match node {
        Node::Array(elements) => elements,
        single => vec![single],
    };
    match (one, other) {
        (Node::Object(mut members), Node::Object(more)) => {
            members.extend(more);
            Node::Object(members)
        }
        (one, other) => {
            let mut elements = listed(one);
            elements.extend(listed(other));
            Node::Array(elements)
        }
    }
}

fn without_path(node: Node, path: &[Option<String>], at: usize) -> Result<Node> {
    if at == path.len() {
        return Ok(node);
    }
    let (step, is_last) = (step(path, at)?, at + 1 == path.len());
    Ok(match node {
        Node::Object(mut members) => {
            if let Some(found) = members.iter().position(|(key, _)| key_text(key) == step) {
                if is_last {
                    members.remove(found);
                } else {
                    let value = std::mem::replace(&mut members[found].1, Node::Null);
                    members[found].1 = without_path(value, path, at + 1)?;
                }
            }
            Node::Object(members)
        }
        Node::Array(mut elements) => {
            if let Some(found) = place(index(step, at)?, elements.len()) {
                if is_last {
                    elements.remove(found);
                } else {
                    let value = std::mem::replace(&mut elements[found], Node::Null);
                    elements[found] = without_path(value, path, at + 1)?;
                }
            }
            Node::Array(elements)
        }
        other => other,
    })
}

fn set(node: Node, path: &[Option<String>], at: usize, new: &Node, creates: bool) -> Result<Node> {
    if at == path.len() {
        return Ok(node);
    }
    let (step, is_last) = (step(path, at)?, at + 1 == path.len());
    let changed = |value: Node| if is_last { Ok(new.clone()) } else { set(value, path, at + 1, new, creates) };
    Ok(match node {
        Node::Object(mut members) => {
            match members.iter().position(|(key, _)| key_text(key) == step) {
                Some(found) => {
                    let value = std::mem::replace(&mut members[found].1, Node::Null);
                    members[found].1 = changed(value)?;
                }
                None if is_last && creates => {
                    let key = super::written::quoted(step);
                    members.push((key[1..key.len() - 1].to_owned(), new.clone()));
                }
                None => {}
            }
            Node::Object(members)
        }
        Node::Array(mut elements) => {
            let wanted = index(step, at)?;
            match place(wanted, elements.len()) {
                Some(found) => {
                    let value = std::mem::replace(&mut elements[found], Node::Null);
                    elements[found] = changed(value)?;
                }
                None if is_last && creates && wanted < 0 => elements.insert(0, new.clone()),
                None if is_last && creates => elements.push(new.clone()),
                None => {}
            }
            Node::Array(elements)
        }
        other => other,
    })
}

impl ScalarUDFImpl for Changed {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |of: &DataType| of.is_string() || of.is_null();
        let list = || DataType::new_list(DataType::Utf8View, true);
        let path = |of: &DataType| match of {
            DataType::List(_) | DataType::LargeList(_) => Some(list()),
            of if is_text(of) => Some(DataType::Utf8View),
            _ => None,
        };
        let text = |of: &DataType| is_text(of).then_some(DataType::Utf8View);
        let further: Option<Vec<DataType>> = match (self.work, types.get(1..).unwrap_or_default()) {
            (Work::Contains | Work::Names | Work::Joined, [one]) => text(one).map(|one| vec![one]),
            (Work::NamesAny | Work::NamesAll | Work::WithoutPath, [one]) => path(one).map(|one| vec![one]),
            (Work::Without, [one]) if one.is_integer() => Some(vec![DataType::Int64]),
            (Work::Without, [one]) => match one {
                DataType::List(_) => Some(vec![list()]),
                one => text(one).map(|one| vec![one]),
            },
            (Work::Set, [steps, new]) => path(steps).zip(text(new)).map(|(steps, new)| vec![steps, new]),
            (Work::Set, [steps, new, DataType::Boolean]) => {
                path(steps).zip(text(new)).map(|(steps, new)| vec![steps, new, DataType::Boolean])
            }
            (Work::Contains | Work::Names | Work::NamesAny | Work::NamesAll | Work::Joined, _) => None,
            (Work::Without | Work::WithoutPath | Work::Set, _) => None,
            (_, []) => Some(Vec::new()),
            _ => None,
        };
        match (types.first().filter(|of| is_text(of)), further) {
            (Some(_), Some(further)) => Ok(std::iter::once(DataType::Utf8View).chain(further).collect()),
            _ => plan_err!("{} takes JSON, and what it is to do with it", self.name),
        }
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.given().data_type().clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(self.given())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, is_constant) = (rows_made(&args.args, args.number_rows), is_constant(&args.args));
        let arrays = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
        let Some((texts, further)) = arrays.split_first() else { return plan_err!("{} takes JSON", self.name) };
        let texts = texts.as_string_view();
        // A text that is to be JSONB is none yet.
        let is_to_be_written = self.kind == Kind::Jsonb && kind_of(&args.arg_fields[0]) != Kind::Jsonb;
        let given = self.given();
        let mut truths = BooleanBuilder::new();
        let mut strings = StringViewBuilder::new();
        let element = match given.data_type() {
            DataType::List(element) => Arc::clone(element),
            _ => Arc::new(Field::new_list_field(DataType::Utf8View, true)),
        };
        let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(element);
        for row in 0..rows {
            let is_null = texts.is_null(row) || further.iter().any(|of| of.is_null(row));
            let found = if is_null {
                Found::Null
            } else if is_to_be_written {
                self.one(Node::of(&normalised(texts.value(row))?)?, further, row)?
            } else {
                self.one(Node::of(texts.value(row))?, further, row)?
            };
            match (found, given.data_type()) {
                (Found::Truth(truth), _) => truths.append_value(truth),
                (Found::Text(text), _) => strings.append_value(text),
                (Found::List(all), _) => {
                    all.into_iter().for_each(|one| lists.values().append_option(one));
                    lists.append(true);
                }
                (Found::Null, DataType::Boolean) => truths.append_null(),
                (Found::Null, DataType::List(_)) => lists.append(false),
                (Found::Null, _) => strings.append_null(),
            }
        }
        let made: ArrayRef = match given.data_type() {
            DataType::Boolean => Arc::new(truths.finish()),
            DataType::List(_) => Arc::new(lists.finish()),
            _ => Arc::new(strings.finish()),
        };
        as_columnar(made, is_constant)
    }
}
