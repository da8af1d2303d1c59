//! From a record to a row: absent is the zero value, an absent time is the
//! epoch, text is stored as sent.
