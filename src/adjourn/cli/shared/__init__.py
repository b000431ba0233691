"""What commands of several help groups use: the table of commands, output, lookup. No command is here."""
