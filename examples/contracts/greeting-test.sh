grep -q "Hello" greeting.txt
