//! Statements that are prepared once a connection, by their text. Preparing one costs as much as a small
//! one takes to run.

use rusqlite::{Connection, Params, Result, Row};

/// What `Connection` offers under the same names, with the prepared statement kept.
pub(crate) trait Cached {
    /// Runs a statement that returns no rows; the number of rows it changed.
    fn execute_cached(&self, sql: &str, params: impl Params) -> Result<usize>;

    /// Runs a statement that returns one row.
    fn query_row_cached<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T>;
}

impl Cached for Connection {
    fn execute_cached(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare_cached(sql)?.execute(params)
    }

    fn query_row_cached<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.prepare_cached(sql)?.query_row(params, read)
    }
}
