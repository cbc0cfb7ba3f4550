package fencing

import (
	"context"
	"database/sql"

	"github.com/golocker/golocker/locker"
)

// Table is where a database remembers the largest token that each lock has shown it.
const Table = `
CREATE TABLE IF NOT EXISTS fences (
	name  TEXT   PRIMARY KEY,
	token BIGINT NOT NULL
)`

// Admit lets a transaction go on if no larger token has been shown, and remembers this
// one. It is the transaction's first statement, before anything is read: then whoever
// is admitted later sees all of it, and whoever has a smaller token changes nothing.
func Admit(ctx context.Context, tx *sql.Tx, name string, token locker.Token) error {
	if token == 0 {
		return ErrUnfenced
	}
	result, err := tx.ExecContext(ctx, `
		INSERT INTO fences (name, token) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET token = excluded.token
		WHERE fences.token <= excluded.token`, name, int64(token))
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil {
		return err
	} else if rows == 0 {
		return ErrOutdated
	}
	return nil
}

// Withdraw changes an account under its lock.
func Withdraw(ctx context.Context, client *locker.Client, db *sql.DB, account string, amount int) error {
	return client.Do(ctx, "account:"+account, func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after Commit
		if err := Admit(ctx, tx, lease.Name(), lease.Token()); err != nil {
			return err
		}
		var balance int
		err = tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE id = $1`, account).Scan(&balance)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE accounts SET balance = $1 WHERE id = $2`, balance-amount, account)
		if err != nil {
			return err
		}
		return tx.Commit()
	}, locker.Fenced())
}

// SetStatus is for one row that is written without being read: the row keeps the token.
func SetStatus(ctx context.Context, db *sql.DB, id, status string, token locker.Token) error {
	if token == 0 {
		return ErrUnfenced
	}
	result, err := db.ExecContext(ctx, `UPDATE jobs SET status = $1, fence = $2 WHERE id = $3 AND fence <= $2`,
		status, int64(token), id)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil {
		return err
	} else if rows == 0 {
		return ErrOutdated // or there is no such job
	}
	return nil
}
