package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/golocker/golocker/locker"
)

const schema = `
CREATE TABLE accounts (
	id      TEXT PRIMARY KEY,
	balance BIGINT NOT NULL,
	token   BIGINT NOT NULL DEFAULT 0 -- of the last writer; below 2^53, so BIGINT holds it
)`

// An account is a row.
type account struct {
	db    *sql.DB
	id    string
	write write
}

// A write writes the balance by the holder of the lock with the given token.
type write func(ctx context.Context, a account, balance int, token locker.Token) error

func (a account) open(ctx context.Context) error {
	_, err := a.db.ExecContext(ctx, `INSERT INTO accounts (id, balance) VALUES ($1, $2)`, a.id, 100)
	return err
}

func (a account) read(ctx context.Context) (balance int, token locker.Token, err error) {
	err = a.db.QueryRowContext(ctx, `SELECT balance, token FROM accounts WHERE id = $1`, a.id).Scan(&balance, &token)
	return balance, token, err
}

// writeUnguarded trusts the writer.
func writeUnguarded(ctx context.Context, a account, balance int, _ locker.Token) error {
	_, err := a.db.ExecContext(ctx, `UPDATE accounts SET balance = $1 WHERE id = $2`, balance, a.id)
	return err
}

// writeGuarded refuses a writer whose lock a later one has had.
func writeGuarded(ctx context.Context, a account, balance int, token locker.Token) error {
	result, err := a.db.ExecContext(ctx,
		`UPDATE accounts SET balance = $1, token = $2 WHERE id = $3 AND token <= $2`,
		balance, int64(token), a.id)
	if err != nil {
		return err
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if rows == 0 {
		return fmt.Errorf("token %v is out of date: %w", token, locker.ErrLost)
	}
	return nil
}
