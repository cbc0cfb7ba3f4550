package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/golocker/golocker/locker"
)

const schema = `
CREATE TABLE accounts (
	id      TEXT PRIMARY KEY,
	balance BIGINT NOT NULL,
	token   BIGINT NOT NULL DEFAULT 0 -- the largest that it was shown; below 2^53, so BIGINT holds it
)`

// An account is a row.
type account struct {
	db      *sql.DB
	id      string
	guarded bool // by tokens; otherwise it trusts the writers
}

func (a account) open(ctx context.Context) error {
	_, err := a.db.ExecContext(ctx, `INSERT INTO accounts (id, balance) VALUES ($1, $2)`, a.id, 100)
	return err
}

// look reads the row for who is not going to write.
func (a account) look(ctx context.Context) (balance int, token locker.Token, err error) {
	err = a.db.QueryRowContext(ctx, `SELECT balance, token FROM accounts WHERE id = $1`, a.id).Scan(&balance, &token)
	return balance, token, err
}

// read reads the balance for the holder of the lock with the given token, who is going to
// write another. Nobody with a smaller one writes after that.
func (a account) read(ctx context.Context, token locker.Token) (balance int, err error) {
	if !a.guarded {
		balance, _, err = a.look(ctx)
		return balance, err
	}
	err = a.db.QueryRowContext(ctx,
		`UPDATE accounts SET token = $1 WHERE id = $2 AND token <= $1 RETURNING balance`,
		int64(token), a.id).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		err = outdated(token)
	}
	return balance, err
}

// write writes the balance for the holder of the lock with the given token, unless a later
// one has been there.
func (a account) write(ctx context.Context, balance int, token locker.Token) error {
	if !a.guarded {
		_, err := a.db.ExecContext(ctx, `UPDATE accounts SET balance = $1 WHERE id = $2`, balance, a.id)
		return err
	}
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
		return outdated(token)
	}
	return nil
}

func outdated(token locker.Token) error {
	return fmt.Errorf("token %v is out of date: %w", token, locker.ErrLost)
}
